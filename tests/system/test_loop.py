"""The loop alone: scripted engines and a scripted trainer on a clock that jumps."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders_orchestration import Script, ScriptedTrainer, ran, read_lines, toy_config, uneven
from videorl.errors import RunStopped, UserError, VideorlError
from videorl.orchestration.stopping import StopSignal
from videorl.types import DropReason, UpdateBatch, UpdateReport


def overlaps(a: dict, b: dict) -> bool:
    return a["starts"] < b["ends"] and b["starts"] < a["ends"]


@st.composite
def runs(draw: st.DrawFn) -> dict:
    staleness = draw(st.sampled_from([0, 0.1, 0.4, 0.5, 1, 1.5, 2, 3]))
    return {
        "questions": draw(st.integers(1, 30)),
        "epochs": draw(st.integers(1, 2)),
        "size": draw(st.integers(1, 4)),
        "updates": draw(st.integers(1, 3)),
        "staleness": staleness,
        "max_lag": draw(st.integers(int(-(-staleness // 1)), 4)),
        "max_steps": draw(st.none() | st.integers(1, 5)),
        "longest": draw(st.sampled_from([1.5, 20.0, 400.0])),
        "update_seconds": draw(st.sampled_from([0.05, 1.0, 10.0])),
        "drop_share": draw(st.sampled_from([0.0, 0.0, 0.3])),
        "seed": draw(st.integers(0, 10_000)),
    }


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(run=runs())
def test_whatever_the_durations_bounds_hold_and_every_question_is_settled_once(tmp_path_factory, run: dict) -> None:
    root: Path = tmp_path_factory.mktemp("run")
    config = toy_config(
        root / "run",
        run={"dir": root / "run", "max_steps": run["max_steps"]},
        data={"epochs": run["epochs"]},
        trainer={"prompts_per_update": run["size"], "updates_per_step": run["updates"]},
        async_={"staleness": run["staleness"], "max_lag": run["max_lag"]},
    )
    rng_of = lambda key, what: random.Random(f"{run['seed']} {key} {what}")  # noqa: E731
    script = Script(
        questions=run["questions"],
        seconds=uneven(run["seed"], run["longest"]),
        update_seconds=lambda batch: rng_of(batch.step, batch.index).random() * run["update_seconds"],
        drop=lambda key: DropReason.VIDEO_BROKEN if rng_of(key, "drop").random() < run["drop_share"] else None,
        scores=lambda key: [rng_of(key, i).choice([0.0, 1.0]) for i in range(2)],
    )
    if all(script.drop(f"{epoch}:toy/{i}") for epoch in range(run["epochs"]) for i in range(run["questions"])):
        return  # a run without a usable question has its own test
    result = ran(config, script)
    keys = [key for key, _ in result.watch.trained]
    total = run["questions"] * run["epochs"]
    assert len(set(keys)) == len(keys) == result.counts.trained
    assert result.counts.issued == 0
    assert result.counts.trained + result.counts.dropped + result.counts.pending == total
    assert all(result.lag(key, version) <= run["max_lag"] for key, version in result.watch.trained)
    assert result.watch.most_held <= config.max_outstanding
    if run["staleness"] == 0:
        assert result.watch.sampling_in_updates == 0
    if run["max_steps"] is None:
        assert result.counts.pending == 0
    else:
        whole = config.groups_per_step * run["max_steps"]
        assert len(result.watch.made) == len(keys) <= whole, "nothing was sampled in vain"
        assert result.counts.pending == 0 or len(keys) == whole


def test_sampling_goes_on_while_the_trainer_computes(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run", async_={"staleness": 1, "max_lag": 2})
    result = ran(config, Script(questions=64, seconds=uneven(1, 6.0)))
    groups, updates = result.events("group"), result.events("update")
    assert any(overlaps(g, u) for g in groups for u in updates)
    assert any(g["oldest_version"] < g["newest_version"] for g in groups)
    trained = {key for u in updates for key in u["questions"]}
    assert any(g["question"] in trained and g["oldest_version"] < g["newest_version"] for g in groups)
    assert 1 <= max(m["lag/max"] for m in result.metrics()) <= 2
    first, last = (next(u for u in updates if u["step"] == 3 and u["index"] == i) for i in (0, 1))
    between = {"starts": first["starts"], "ends": last["ends"]}
    assert any(overlaps(g, between) for g in groups)


def test_with_staleness_0_nothing_is_sampled_while_the_trainer_computes(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run", async_={"staleness": 0})
    result = ran(config, Script(questions=64, seconds=uneven(1, 6.0)))
    groups, updates = result.events("group"), result.events("update")
    assert not any(overlaps(g, u) for g in groups for u in updates)
    assert all(g["oldest_version"] == g["newest_version"] for g in groups)
    assert {m["lag/max"] for m in result.metrics()} == {0}
    assert {m["outstanding/max"] for m in result.metrics()} == {8}


def test_a_publication_waits_for_a_group_that_it_would_push_past_max_lag(tmp_path: Path) -> None:
    def seconds(key: str) -> tuple[float, float]:
        return (0.0, 100.0) if key == "0:toy/3" else (0.0, 1.0)

    def lag_of_the_slow_one(max_lag: int) -> int:
        config = toy_config(tmp_path / f"run{max_lag}", async_={"staleness": 1, "max_lag": max_lag})
        result = ran(config, Script(questions=64, seconds=seconds))
        return max(result.lag(key, version) for key, version in result.watch.trained if key == "0:toy/3")

    assert lag_of_the_slow_one(100) > 2
    assert lag_of_the_slow_one(2) == 2
    assert lag_of_the_slow_one(1) == 1


def test_seven_questions_with_a_batch_of_four_end_cleanly(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run", trainer={"prompts_per_update": 4, "updates_per_step": 1})
    result = ran(config, Script(questions=7))
    assert result.counts.trained == 7
    assert [batch.denominator for batch in result.trainer.batches] == [4 * 2 * 3, 3 * 2 * 3]
    assert [m["groups/trained"] for m in result.metrics()] == [4, 3]
    assert [m["version"] for m in result.metrics()] == [1, 2]
    assert (tmp_path / "run/checkpoints/step-000002/COMPLETE").exists()
    assert result.status()["state"] == "finished"


def test_epochs_follow_each_other_without_a_gap(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run", data={"epochs": 2}, trainer={"prompts_per_update": 4, "updates_per_step": 1})
    result = ran(config, Script(questions=6, seconds=lambda key: (0.0, 1.0)))
    assert [m["groups/trained"] for m in result.metrics()] == [4, 4, 4]
    second = [g.key.split(":")[0] for g in result.trainer.batches[1].groups]
    assert set(second) == {"0", "1"}


def test_max_steps_ends_the_run_and_the_rest_stays_pending(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run", run={"dir": tmp_path / "run", "max_steps": 2})
    result = ran(config, Script(questions=64))
    assert [m["step"] for m in result.metrics()] == [1, 2]
    assert (result.counts.trained, result.counts.pending, result.counts.issued) == (16, 48, 0)
    assert result.events("checkpoint")[-1]["step"] == 2


def test_an_update_without_any_advantage_is_told_to_the_trainer_and_counted(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run", trainer={"prompts_per_update": 2, "updates_per_step": 2})
    flat = {"0:toy/0", "0:toy/1", "0:toy/2"}
    result = ran(
        config,
        Script(
            questions=4,
            seconds=lambda key: (0.0, 1.0 + int(key[-1])),
            scores=lambda key: (1.0, 1.0) if key in flat else (1.0, 0.0),
        ),
    )
    first, second = result.trainer.batches
    assert (first.groups, first.denominator) == ((), 12)
    assert ([g.key for g in second.groups], second.denominator) == (["0:toy/3"], 12)
    (metrics,) = result.metrics()
    assert metrics["groups/zero_advantage"] == 3
    assert (metrics["updates/stepped"], metrics["updates/no_advantage"]) == (1, 1)


def test_a_metrics_line_has_what_the_contract_names(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run", trainer={"prompts_per_update": 4, "updates_per_step": 1})
    drop = {"0:toy/2": DropReason.PROMPT_TOO_LONG}
    result = ran(config, Script(questions=5, drop=lambda key: drop.get(key)))
    (line,) = result.metrics()
    names = "step version reward/mean reward/accuracy reward/format response/length lag/mean lag/max idle/trainer"
    names += " idle/rollout logprob/max_diff grad_norm lr dropped/prompt_too_long timing/step timing/update"
    assert all(line[name] is not None for name in names.split())
    assert (line["reward/mean"], line["reward/format"], line["response/length"]) == (0.5, 1.0, 3.0)
    assert line["dropped/questions"] == line["dropped/prompt_too_long"] == 1
    # Prepared 0.1 s, sampled 1 s, updated 1 s, published 0.2 s (the slower of two engines): 2.3 s.
    assert line["timing/step"] == pytest.approx(2.3, abs=1e-6)
    assert line["idle/trainer"] == pytest.approx(1.1 / 2.3, abs=1e-6)
    assert line["idle/rollout"] == pytest.approx(1.3 / 2.3, abs=1e-6)


def test_a_signal_stops_the_run_and_it_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    sections = {"checkpoint": {"every": 2}, "trainer": {"prompts_per_update": 4, "updates_per_step": 1}}
    config = toy_config(tmp_path / "run", **sections)

    async def stop_in_step_6(stop: StopSignal) -> None:
        while not (tmp_path / "run/metrics.jsonl").exists() or len(read_lines(tmp_path / "run/metrics.jsonl")) < 5:
            await asyncio.sleep(0.05)
        stop.ask("SIGTERM")

    with pytest.raises(RunStopped, match="SIGTERM"):
        ran(config, Script(questions=40, seconds=uneven(3, 5.0), meanwhile=stop_in_step_6))
    status = json.loads((tmp_path / "run/status.json").read_text())
    assert (status["state"], status["step"], status["version"]) == ("stopped", 5, 5)

    result = ran(config, Script(questions=40, seconds=uneven(3, 5.0)))
    assert result.trainer.loaded == tmp_path / "run/checkpoints/step-000004"
    assert result.trainer.updates == 10
    assert [m["step"] for m in result.metrics()] == list(range(1, 11))
    assert [m["version"] for m in result.metrics()] == list(range(1, 11))
    assert result.counts.trained == 40
    rows = [
        (r["epoch"], r["question"], r["response_index"])
        for path in sorted((tmp_path / "run/rollouts").iterdir())
        for r in read_lines(path)
    ]
    assert len(rows) == len(set(rows)) == 80, "each question was trained exactly once"
    assert [e["resumed_from"] for e in result.events("run_started")] == [None, 4]
    assert len(result.events("run_stopped")) == 1


def test_a_trainer_fault_ends_the_run_with_its_reason_in_one_line(tmp_path: Path) -> None:
    class Broken(ScriptedTrainer):
        async def update(self, batch: UpdateBatch) -> UpdateReport:
            if batch.step == 2:
                raise RuntimeError("rank 1: out of memory\nTraceback …")
            return await super().update(batch)

    with pytest.raises(VideorlError) as fault:
        ran(toy_config(tmp_path / "run"), Script(questions=40, trainer=Broken))
    assert str(fault.value) == "trainer: update 1 of fit step 2 failed: RuntimeError: rank 1: out of memory"
    status = json.loads((tmp_path / "run/status.json").read_text())
    assert (status["state"], status["last_error"]) == ("failed", str(fault.value))
    last = read_lines(tmp_path / "run/events.jsonl")[-1]
    assert (last["kind"], last["reason"]) == ("run_failed", str(fault.value))
    assert "Traceback (most recent call last)" in last["traceback"]
    assert "rank 1: out of memory" in last["traceback"]


def test_a_checkpoint_that_cannot_be_written_ends_the_run_and_does_not_count(tmp_path: Path) -> None:
    class Forgetful(ScriptedTrainer):
        async def save(self, folder: Path) -> None:
            await super().save(folder)
            shutil.rmtree(folder)

    config = toy_config(tmp_path / "run")
    with pytest.raises(VideorlError, match=r"step-000002: completing it failed: FileNotFoundError"):
        ran(config, Script(questions=16, trainer=Forgetful))
    assert ran(config, Script(questions=16)).events("run_started")[-1]["resumed_from"] is None


def test_a_trainer_that_does_not_answer_meets_its_deadline(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run", trainer={"update_timeout": 60.0})
    with pytest.raises(VideorlError, match="update 1 of fit step 1 did not answer within 60 s"):
        ran(config, Script(update_seconds=lambda batch: 1e6))


def test_rollouts_that_never_come_back_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(VideorlError, match="no group has moved for 2760 s: 0 in preparation, 11 in the engines"):
        ran(toy_config(tmp_path / "run"), Script(seconds=lambda key: (0.0, 1e6)))


def test_too_many_broken_videos_stop_the_run_with_a_report(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run", data={"max_bad_share": 0.1})
    bad = lambda key: DropReason.VIDEO_MISSING if int(key.split("/")[1]) % 5 == 0 else None  # noqa: E731
    with pytest.raises(VideorlError, match=r"of \d+ questions were dropped for their media \(video_missing \d+\)"):
        ran(config, Script(questions=100, drop=bad))


def test_a_run_without_a_single_usable_question_fails(tmp_path: Path) -> None:
    with pytest.raises(VideorlError, match="nothing was trained: 5 questions were asked and dropped"):
        ran(toy_config(tmp_path / "run"), Script(questions=5, drop=lambda key: DropReason.PROMPT_TOO_LONG))


def test_a_changed_config_is_refused_and_max_steps_may_change(tmp_path: Path) -> None:
    run = {"dir": tmp_path / "run", "max_steps": 1}
    ran(toy_config(tmp_path / "run", run=run), Script(questions=64))
    with pytest.raises(UserError, match=r"trainer\.lr was 1e-06 and is now 2e-06"):
        ran(toy_config(tmp_path / "run", run=run, trainer={"lr": 2e-6}), Script(questions=64))
    result = ran(toy_config(tmp_path / "run", run={**run, "max_steps": 3}), Script(questions=64))
    assert [m["step"] for m in result.metrics()] == [1, 2, 3]


def test_a_finished_run_started_again_has_nothing_to_do(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run")
    before = ran(config, Script(questions=10)).metrics()
    again = ran(config, Script(questions=10))
    assert again.metrics() == before
    assert again.trainer.batches == []
    assert again.status()["state"] == "finished"


def test_old_checkpoints_go_but_the_keeper_stays(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run", checkpoint={"every": 1, "keep": 2})
    (tmp_path / "run/eval").mkdir(parents=True)
    (tmp_path / "run/eval/keeper.json").write_text('{"step": 2, "macro_mean": 0.5}')
    ran(config, Script(questions=48))
    assert sorted(p.name for p in (tmp_path / "run/checkpoints").iterdir()) == [
        "step-000002",
        "step-000005",
        "step-000006",
    ]
