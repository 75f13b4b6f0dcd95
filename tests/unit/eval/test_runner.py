"""The runner's logic with scripted engines; real ones stand in tests/system/test_evaluation.py."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from builders_eval import Scripted, prepare, question
from videorl.errors import DeadlineExceeded, EngineDied, QuestionDropped, VideorlError
from videorl.eval.predictions import Prediction, PredictionFile, read_predictions
from videorl.eval.runner import Row, Runner
from videorl.rewards.reward import MultipleChoice, Unscored
from videorl.types import Drop, DropReason, Prompt, Question, Rollout, Sampling

ROWS = [Row("made", question(n)) for n in range(12)]
GREEDY = Sampling(0.0, 64)


def runner(
    *engines: Scripted, prepare: Callable[[Row], Prompt] = prepare, in_flight: int = 3, **other: object
) -> Runner:
    reward = other.get("reward", MultipleChoice())
    return Runner(engines, prepare, reward, GREEDY, in_flight, lambda _: None)  # type: ignore[arg-type]


async def answered(asker: Runner, folder: Path, rows: list[Row] = ROWS) -> list[Prediction]:
    with PredictionFile(folder / "predictions.jsonl", "key") as file:
        await asker.run(rows, file)
    return sorted(read_predictions(folder / "predictions.jsonl"), key=lambda p: int(p.id.split("/")[1].split("#")[0]))


async def test_one_two_and_three_replicas_write_the_same_rows(tmp_path: Path) -> None:
    found = [
        await answered(runner(*(Scripted(f"r{i}") for i in range(count))), tmp_path / str(count)) for count in (1, 2, 3)
    ]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == len(ROWS)
    assert all(p.correct and p.format == 1.0 and p.tokens == 3 for p in found[0])


async def test_a_replica_holds_no_more_rows_than_it_may(tmp_path: Path) -> None:
    engine = Patient("r0")
    await answered(runner(engine, in_flight=2), tmp_path)
    assert engine.most == 2


class Patient(Scripted):
    """Holds its first request until it has a second one."""

    async def generate(self, request_id: str, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        self.busy += 1
        self.most = max(self.most, self.busy)
        while not self.asked and self.busy < 2:
            await asyncio.sleep(0)
        self.busy -= 1
        return await super().generate(request_id, prompt, n, sampling)


async def test_rows_that_are_answered_are_not_asked_again(tmp_path: Path) -> None:
    await answered(runner(Scripted("r0")), tmp_path, ROWS[:5])
    again = Scripted("r0")
    await answered(runner(again), tmp_path)
    assert len(again.asked) == 7


async def test_rows_of_a_replica_that_dies_go_to_the_others_and_none_is_lost(tmp_path: Path) -> None:
    deaths = Counter[str]()

    def die_at_third(request_id: str) -> None:
        deaths[request_id] += 1
        if sum(deaths.values()) >= 3:
            raise EngineDied("r0 is gone")

    mortal, other = Scripted("r0", die_at_third), Scripted("r1")
    found = await answered(runner(mortal, other), tmp_path)
    assert len(found) == len(ROWS)
    assert all(p.correct for p in found)
    assert len(other.asked) == len(ROWS) - 2


async def test_a_replica_that_dies_last_finds_the_idle_one(tmp_path: Path) -> None:
    rows = ROWS[:2]

    def die(_: str) -> None:
        raise EngineDied("r1 is gone")

    other = Scripted("r0")
    found = await answered(runner(other, Scripted("r1", die), in_flight=1), tmp_path, rows)
    assert len(found) == 2
    assert len(other.asked) == 2


async def test_when_every_replica_dies_the_rest_is_left_and_said(tmp_path: Path) -> None:
    def die_at_fifth(request_id: str) -> None:
        if request_id.endswith("/5"):
            raise EngineDied("gone")

    with pytest.raises(VideorlError, match="every replica died"):
        await answered(runner(Scripted("r0", die_at_fifth), in_flight=1), tmp_path)
    assert len(read_predictions(tmp_path / "predictions.jsonl")) == 5
    assert len(await answered(runner(Scripted("r0")), tmp_path)) == len(ROWS)


async def test_a_broken_video_fails_its_row_and_only_that_is_tried_again(tmp_path: Path) -> None:
    broken = {"made/3", "made/7", "made/8"}

    def with_broken(row: Row) -> Prompt:
        if row.question.id in broken:
            raise QuestionDropped(Drop(DropReason.VIDEO_BROKEN, f"{row.question.media[0].path}: no picture"))
        return prepare(row)

    found = await answered(runner(Scripted("r0"), prepare=with_broken), tmp_path)
    failed = {p.id: p.error for p in found if p.failed}
    assert failed.keys() == broken
    assert failed["made/3"] == "video_broken: /videos/3.mp4: no picture"
    broken.clear()
    engine = Scripted("r0")
    repaired = await answered(runner(engine, prepare=with_broken), tmp_path)
    assert sorted(engine.asked) == ["made:made/3", "made:made/7", "made:made/8"]
    assert len(repaired) == len(ROWS)
    assert not any(p.failed for p in repaired)


async def test_a_request_past_its_deadline_fails_its_row(tmp_path: Path) -> None:
    def late(request_id: str) -> None:
        if request_id.endswith("/2"):
            raise DeadlineExceeded("r0: request took longer than 1 s")

    found = await answered(runner(Scripted("r0", late)), tmp_path)
    assert [p.error for p in found if p.failed] == ["generation_failed: r0: request took longer than 1 s"]


async def test_what_cannot_be_scored_fails_and_is_not_wrong_silently(tmp_path: Path) -> None:
    def undecided(question: Question, completion: str, *, thinks: bool) -> Unscored:
        return Unscored("no judge today")

    found = await answered(runner(Scripted("r0"), reward=undecided), tmp_path, ROWS[:1])
    assert found[0].error == "unscorable: no judge today"


async def test_rows_of_one_video_are_asked_one_after_the_other(tmp_path: Path) -> None:
    rows = [Row("made", question(n, video=f"/videos/{n // 3}.mp4")) for n in range(9)]
    together = Counter[str]()
    most = 0

    class Watching(Scripted):
        async def generate(self, request_id: str, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
            nonlocal most
            video = rows[int(request_id.split("/")[1])].question.media[0].path
            together[video] += 1
            most = max(most, together[video])
            try:
                return await super().generate(request_id, prompt, n, sampling)
            finally:
                together[video] -= 1

    await answered(runner(Watching("r0"), Watching("r1"), in_flight=4), tmp_path, rows)
    assert most == 1


async def test_a_bug_ends_the_evaluation_and_keeps_what_was_answered(tmp_path: Path) -> None:
    def buggy(request_id: str) -> None:
        if request_id.endswith("/4"):
            raise KeyError("oops")

    with pytest.raises(KeyError):
        await answered(runner(Scripted("r0", buggy), in_flight=1), tmp_path)
    assert len(read_predictions(tmp_path / "predictions.jsonl")) == 4
