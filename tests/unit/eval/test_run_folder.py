"""A run's files that are not what evaluation, export and the card expect are named in one line."""

from pathlib import Path

import pytest

from videorl.errors import UserError
from videorl.eval.run_folder import RunFolder


@pytest.mark.parametrize("text", ["{", "[1]", '{"step": 1}'])
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
