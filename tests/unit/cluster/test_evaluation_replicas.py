from __future__ import annotations

from pathlib import Path

import pytest

from videorl.cluster.evaluation_replicas import same_but_weights


def write_model(folder: Path, **files: str) -> Path:
    folder.mkdir()
    for name, text in ({"config": "{}", "model": folder.name} | files).items():
        (folder / f"{name}.{'safetensors' if name == 'model' else 'json'}").write_text(text)
    return folder


def test_checkpoints_of_one_run_differ_in_nothing_but_their_weights(tmp_path: Path) -> None:
    one, other = write_model(tmp_path / "step-1"), write_model(tmp_path / "step-2")
    (other / "README.md").write_text("a card")
    assert same_but_weights(one, other)


@pytest.mark.parametrize("files", [{"config": '{"layers": 2}'}, {"tokenizer": "{}"}])
def test_another_config_or_a_file_more_is_another_model(tmp_path: Path, files: dict[str, str]) -> None:
    assert not same_but_weights(write_model(tmp_path / "one"), write_model(tmp_path / "other", **files))
