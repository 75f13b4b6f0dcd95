from __future__ import annotations

from pathlib import Path

import pytest

from videorl.errors import VideorlError
from videorl.orchestration.checkpoints import Checkpoints, RunPoint


def write(checkpoints: Checkpoints, step: int) -> None:
    (checkpoints.begin(step) / "weights").write_bytes(b"w")
    checkpoints.commit(RunPoint(step, step, trained=8 * step, dropped=1))


def test_the_last_complete_one_is_found_and_the_half_written_one_cleared_away(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.last() is None
    write(checkpoints, 10)
    write(checkpoints, 20)
    (checkpoints.begin(30) / "weights").write_bytes(b"half")
    last = checkpoints.last()
    assert last is not None
    assert (last.folder, last.point) == (tmp_path / "step-000020", RunPoint(20, 20, 160, 1))
    assert checkpoints.clear_incomplete() == [tmp_path / "step-000030"]
    assert checkpoints.steps() == [10, 20]


def test_complete_is_written_after_everything_else_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import videorl.orchestration.checkpoints as module

    on_disk: list[str] = []
    to_disk = module.to_disk

    def noted(path: Path) -> None:
        assert (tmp_path / "step-000001/COMPLETE").exists() == ("COMPLETE" in on_disk or path.name == "COMPLETE")
        on_disk.append(path.name)
        to_disk(path)

    monkeypatch.setattr(module, "to_disk", noted)
    write(Checkpoints(tmp_path), 1)
    assert sorted(on_disk[:-2]) == sorted(["weights", "state.json", "step-000001", tmp_path.name])
    assert on_disk[-2:] == ["COMPLETE", "step-000001"]


def test_only_the_newest_and_the_keeper_stay(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 3, 4, 5):
        write(checkpoints, step)
    assert checkpoints.prune(keep=2, keeper=1) == [2, 3]
    assert checkpoints.steps() == [1, 4, 5]


def test_a_checkpoint_without_a_readable_state_is_named(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    write(checkpoints, 1)
    (tmp_path / "step-000001/state.json").write_text("{")
    with pytest.raises(VideorlError, match=r"step-000001/state\.json: cannot be read"):
        checkpoints.last()
