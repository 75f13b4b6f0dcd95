"""videorl train before the run starts: the resolved config, and what is checked first."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from videorl.cli.main import run
from videorl.cli.preflight import check
from videorl.config import Config, load_config

PLAYGROUND = Path(__file__).parents[3] / "configs" / "playground.toml"
SHAPE = {
    "model_type": "qwen3_vl",
    "text_config": {
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "intermediate_size": 128,
        "vocab_size": 512,
    },
    "vision_config": {
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 64,
        "patch_size": 16,
        "temporal_patch_size": 2,
        "spatial_merge_size": 2,
        "out_hidden_size": 64,
        "deepstack_visual_indexes": [0],
    },
}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A folder with all that preflight looks for."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(SHAPE))
    for name in ("model.safetensors", "tokenizer.json", "preprocessor_config.json"):
        (model / name).touch()
    (tmp_path / "train.parquet").touch()
    return tmp_path


def configured(world: Path, *overrides: str) -> Config:
    paths = [f"model.path={world}/model", f"data.train={world}/*.parquet", f"run.dir={world}/run"]
    return load_config(PLAYGROUND, [*paths, *overrides])


def test_a_dry_run_prints_the_resolved_config_and_what_follows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", str(PLAYGROUND), "trainer.lr=2e-5", "--dry-run"]) == 0
    printed = capsys.readouterr().out
    assert tomllib.loads(printed)["trainer"]["lr"] == 2e-5
    assert "# trajectories_per_step = 64" in printed


def test_a_dry_run_as_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", str(PLAYGROUND), "async.staleness=0", "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["config"]["async"]["staleness"] == 0
    assert document["derived"]["max_outstanding_groups"] == document["derived"]["groups_per_step"] == 8


def test_a_sound_config_passes(world: Path) -> None:
    check(configured(world))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.path=nowhere", "no such folder"),
        ("data.train=nowhere.parquet", "nowhere.parquet: no such file"),
        ('eval.benchmarks={ "video-mme" = "nowhere.parquet" }', "eval.benchmarks video-mme"),
        ("reward.name=lettre", "reward.name"),
        ("data.prompt=no_module:render", "data.prompt"),
        ("cluster.device=gpu", "cluster.device"),
    ],
)
def test_what_is_missing_is_said_before_anything_starts(
    world: Path, override: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if override == "cluster.device=gpu":
        torch = pytest.importorskip("torch")
        if torch.cuda.is_available():
            pytest.skip("a GPU is here")
    paths = [f"model.path={world}/model", f"data.train={world}/*.parquet", f"run.dir={world}/run"]
    assert run(["train", str(PLAYGROUND), *paths, override]) == 2
    said_all = capsys.readouterr().err
    assert said in said_all
    assert said_all.count("\n") == 1
    assert not (world / "run").exists()


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("config.json", '{"model_type": "llama"}', "model_type is 'llama'"),
        ("config.json", '{"model_type": "qwen3_vl"}', "'text_config' is missing"),
        ("config.json", None, "has no config.json"),
        ("model.safetensors", None, "holds no *.safetensors"),
        ("tokenizer.json", None, "holds no tokenizer.json"),
        ("preprocessor_config.json", None, "holds no preprocessor_config.json"),
    ],
)
def test_an_incomplete_model_folder_is_named(world: Path, file: str, text: str | None, said: str) -> None:
    path = world / "model" / file
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(Exception, match=said.replace("*", r"\*")) as error:
        check(configured(world))
    assert getattr(error.value, "exit_code", None) == 2
