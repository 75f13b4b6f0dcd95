from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders_orchestration import read_lines, toy_config
from videorl.errors import UserError, VideorlError
from videorl.orchestration.checkpoints import RunPoint
from videorl.orchestration.run_dir import RunDir


def lines(*trees: dict) -> str:
    return "".join(json.dumps(tree) + "\n" for tree in trees)


def test_two_runs_never_share_a_directory(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run")
    with RunDir(config), pytest.raises(UserError, match=r"a run is going on in it \(process \d+\)"), RunDir(config):
        pass
    with RunDir(config):
        pass


def test_never_refuses_a_directory_that_holds_a_run(tmp_path: Path) -> None:
    config = toy_config(tmp_path / "run", run={"dir": tmp_path / "run", "resume": "never"})
    with RunDir(config):
        pass
    with pytest.raises(UserError, match="holds a run"), RunDir(config):
        pass
    with RunDir(toy_config(tmp_path / "run")):
        pass


@pytest.mark.parametrize(
    ("section", "values", "told"),
    [
        ("trainer", {"lr": 3e-6}, "trainer.lr was 1e-06 and is now 3e-06"),
        ("run", {"seed": 7}, "run.seed was 0 and is now 7"),
        ("checkpoint", {"keep": 3}, "checkpoint.keep was unset and is now 3"),
        ("async_", {"staleness": 1.0}, "async.staleness was 0.4 and is now 1.0"),
    ],
)
def test_a_changed_key_is_refused_and_named(tmp_path: Path, section: str, values: dict, told: str) -> None:
    root = tmp_path / "run"
    with RunDir(toy_config(root)):
        pass
    changed = {"dir": root, **values} if section == "run" else values
    with pytest.raises(UserError) as fault, RunDir(toy_config(root, **{section: changed})):
        pass
    assert told in str(fault.value)
    assert fault.value.exit_code == 2
    with RunDir(toy_config(root)):  # the refused start has let go of the lock and left the config alone
        pass


def test_a_run_older_than_a_key_goes_on_with_the_keys_default(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with RunDir(toy_config(root)):
        pass
    config = root / "config.toml"
    config.write_text("".join(line for line in config.open() if not line.startswith("decoder = ")))
    with pytest.raises(UserError, match=r"data\.decoder was 'pyav' and is now 'torchcodec'"):
        RunDir(toy_config(root, data={"train": ["questions.parquet"], "decoder": "torchcodec"})).__enter__()
    with RunDir(toy_config(root)):
        assert "decoder = " in config.read_text()


def test_how_long_it_goes_on_and_what_is_shown_may_change(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with RunDir(toy_config(root)):
        pass
    with RunDir(toy_config(root, run={"dir": root, "max_steps": 9}, monitor={"console": "off"})):
        assert "max_steps = 9" in (root / "config.toml").read_text()


def test_everything_after_the_last_checkpoint_is_cut_off(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with RunDir(toy_config(root)) as run_dir:
        run_dir.checkpoints.begin(2)
        run_dir.checkpoints.commit(RunPoint(2, 2, 16, 0))
        run_dir.metrics.write_text(lines({"step": 1}, {"step": 2}, {"step": 3}) + '{"step": 4, "to')
        run_dir.events.write_text(lines({"kind": "run_started", "step": None}, {"step": 2}, {"step": 3}, {"kind": "x"}))
        for step in (2, 3):
            (run_dir.rollouts / f"step-{step:06d}.jsonl").write_text("{}\n")
    with RunDir(toy_config(root)) as run_dir:
        last = run_dir.resume_point()
        assert last is not None
        assert last.point.step == 2
        assert [m["step"] for m in read_lines(run_dir.metrics)] == [1, 2]
        assert [e.get("step") for e in read_lines(run_dir.events)] == [None, 2, None]
        assert [p.name for p in run_dir.rollouts.iterdir()] == ["step-000002.jsonl"]


def test_without_a_checkpoint_a_run_begins_anew(tmp_path: Path) -> None:
    with RunDir(toy_config(tmp_path / "run")) as run_dir:
        run_dir.metrics.write_text(lines({"step": 1}))
        assert run_dir.resume_point() is None
        assert run_dir.metrics.read_text() == ""


def test_a_directory_that_cannot_be_made_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(VideorlError, match=r"run\.dir .*file/run: cannot be written"),
        RunDir(toy_config(tmp_path / "file/run")),
    ):
        pass
