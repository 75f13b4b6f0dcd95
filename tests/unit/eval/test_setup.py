from pathlib import Path

import pytest

from videorl.config import build_config, dump_toml
from videorl.errors import UserError
from videorl.eval.run_folder import ModelChoice, RunFolder
from videorl.eval.settings import EvalSettings, replica_settings
from videorl.eval.setup import evaluation_config
from videorl.playground.tiny_model import make_tiny_model


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    tree = {
        "model": {"path": "/models/base"},
        "data": {"train": ["t.parquet"], "max_frames": 8},
        "rollout": {"max_response_tokens": 64},
    }
    (run.path / "config.toml").write_text(dump_toml(build_config(tree)))
    return run


def test_a_checkpoint_is_evaluated_under_the_config_of_its_run(run: RunFolder, tmp_path: Path) -> None:
    folder = run.model(20)
    config = evaluation_config(ModelChoice(folder, run, 20), tmp_path / "out")
    assert config.data.max_frames == 8
    assert config.model.path == folder
    assert config.store_dir == tmp_path / "frames"  # the run's own


def test_an_export_is_evaluated_as_its_checkpoint_was(run: RunFolder, tmp_path: Path) -> None:
    export = tmp_path / "export"
    export.mkdir()
    (export / "videorl.toml").write_text((run.path / "config.toml").read_text())
    settings = [
        EvalSettings.of_config(evaluation_config(choice, tmp_path / "out"), "train", subtitles=False)
        for choice in (ModelChoice(export), ModelChoice(run.model(20), run, 20))
    ]
    assert settings[0] == settings[1]


def test_any_other_model_is_evaluated_under_the_defaults_and_greedily(tmp_path: Path) -> None:
    config = evaluation_config(ModelChoice(tmp_path / "model"), tmp_path / "evals" / "out")
    settings = EvalSettings.of_config(config, "train", subtitles=False)
    assert (settings.max_frames, settings.max_pixels, settings.fps) == (24, 100_000, 1.0)
    assert (settings.sampling.temperature, settings.sampling.top_p, settings.sampling.top_k) == (0.0, 1.0, -1)
    assert config.store_dir == tmp_path / "evals" / "frames"


def test_overrides_come_on_top(run: RunFolder, tmp_path: Path) -> None:
    overrides = ["eval.temperature=0.7", "data.max_frames=16"]
    config = evaluation_config(ModelChoice(run.model(20), run, 20), tmp_path / "out", overrides=overrides)
    assert (config.eval.temperature, config.data.max_frames) == (0.7, 16)


def test_a_length_beyond_the_model_is_refused_by_key(tmp_path: Path) -> None:
    make_tiny_model(tmp_path / "model", seed=0)
    choice = ModelChoice(tmp_path / "model")
    config = evaluation_config(choice, tmp_path / "out", overrides=["data.max_prompt_tokens=512"])
    with pytest.raises(UserError, match=r"= 4608 are more than the 4096 positions .* lower eval.max_response_tokens"):
        replica_settings(config, choice.folder)
    fitting = ["data.max_prompt_tokens=512", "eval.max_response_tokens=64", "eval.replicas=3"]
    replicas = replica_settings(evaluation_config(choice, tmp_path / "out", overrides=fitting), choice.folder)
    assert [(one.replica, one.max_model_len) for one in replicas] == [(0, 576), (1, 576), (2, 576)]
