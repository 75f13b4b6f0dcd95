"""A run's files that are not what evaluation, export and the card expect are named in one line."""

from pathlib import Path

import pytest

from videorl.errors import UserError
from videorl.eval.run_folder import RunFolder, find_model
from videorl.eval.trajectory import read_trajectory

REST = '"macro_mean": 0.5, "chosen_on": "made", "criterion": 0.5'


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "[1]", '{"step": 1}', f'{{"step": "x", {REST}}}'])
def test_a_keeper_that_is_none_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "eval").mkdir()
    (tmp_path / "eval" / "keeper.json").write_text(text)
    with pytest.raises(UserError, match=r"keeper\.json: "):
        RunFolder(tmp_path).keeper()


def test_a_folder_beside_the_checkpoints_is_none(tmp_path: Path) -> None:
    for name in ("step-000020", "step-000020-old"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        (tmp_path / "checkpoints" / name / "COMPLETE").touch()
    assert RunFolder(tmp_path).steps() == [20]


def test_a_model_that_lies_beside_the_checkpoints_is_a_model_of_no_run(tmp_path: Path) -> None:
    (tmp_path / "config.toml").touch()
    best = tmp_path / "checkpoints" / "best" / "hf"
    best.mkdir(parents=True)
    (best / "config.json").write_text("{}")
    assert find_model(str(best)).run is None


def test_an_evaluation_under_another_name_is_no_step_of_the_trajectory(tmp_path: Path) -> None:
    (tmp_path / "eval" / "step-20-old").mkdir(parents=True)
    (tmp_path / "eval" / "step-20-old" / "report.json").write_text("{}")
    assert read_trajectory(RunFolder(tmp_path)) == []


def test_a_checkpoint_that_has_lost_its_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").touch()
    (tmp_path / "checkpoints" / "step-000020").mkdir(parents=True)
    (tmp_path / "checkpoints" / "step-000020" / "COMPLETE").touch()
    with pytest.raises(UserError, match="step-000020/hf: holds no model"):
        find_model(str(tmp_path))
