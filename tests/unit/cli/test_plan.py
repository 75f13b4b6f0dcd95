"""videorl plan: its formulas against published sizes and counts, and where things are placed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from videorl.cli.estimate import memory_of_a_device, work_of_a_step
from videorl.cli.main import run
from videorl.cli.model_shape import ModelShape
from videorl.cli.plan import placement
from videorl.config import load_config

CONFIGS = Path(__file__).parents[3] / "configs"
# Qwen3-VL-8B-Instruct's config.json.
QWEN3_VL_8B = {
    "model_type": "qwen3_vl",
    "tie_word_embeddings": False,
    "text_config": {
        "num_hidden_layers": 36,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 12288,
        "vocab_size": 151936,
    },
    "vision_config": {
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "patch_size": 16,
        "temporal_patch_size": 2,
        "spatial_merge_size": 2,
        "out_hidden_size": 4096,
        "deepstack_visual_indexes": [8, 16, 24],
    },
}
SHAPE = ModelShape.of_config(QWEN3_VL_8B)


def test_sizes_are_those_of_the_published_model() -> None:
    assert SHAPE.parameters == pytest.approx(8.77e9, rel=0.002)
    assert SHAPE.vision.parameters == pytest.approx(0.58e9, rel=0.015)
    assert SHAPE.text.layers * SHAPE.text.layer_parameters == pytest.approx(6.95e9, rel=0.001)


def test_forward_work_of_the_8b_model() -> None:
    assert SHAPE.text.flops(1) == pytest.approx(13.89e9, rel=1e-3)
    assert SHAPE.text.flops(1_400) == pytest.approx(20.0e12, rel=2e-3)
    assert SHAPE.text.flops(92, 1_400) == pytest.approx(13.89e9 * 92 + 589_824 * (92 * 1_400 + 92 * 93 / 2), rel=1e-3)
    assert SHAPE.text.head_flops(1) == pytest.approx(1.245e9, rel=1e-3)
    assert SHAPE.vision.flops(12, 390) == pytest.approx(4.47e12, rel=2e-3)


def test_a_tiny_models_parameters_are_counted_as_torch_counts_them() -> None:
    torch = pytest.importorskip("torch")
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    tree = json.loads(json.dumps(QWEN3_VL_8B))
    tree["text_config"] |= {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4}
    tree["text_config"] |= {"num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 384, "vocab_size": 700}
    tree["vision_config"] |= {"depth": 3, "hidden_size": 96, "intermediate_size": 192, "out_hidden_size": 128}
    tree["vision_config"] |= {"num_heads": 2, "deepstack_visual_indexes": [0, 1]}
    with torch.device("meta"):
        model = Qwen3VLForConditionalGeneration(Qwen3VLConfig(**tree))
    matrices = [p for name, p in model.named_parameters() if p.dim() > 1 and "pos_embed" not in name]
    assert ModelShape.of_config(tree).parameters == sum(p.numel() for p in matrices)


def test_the_reference_run_shares_prompts_and_fits_an_80_gib_gpu() -> None:
    config = load_config(CONFIGS / "qwen3vl_8b_4node.toml")
    work = work_of_a_step(config, SHAPE, response_tokens=92)
    assert work.prompt_tokens == pytest.approx(1_400, rel=0.1)
    assert work.separate / work.training == pytest.approx(5.7, rel=0.03)
    memory = memory_of_a_device(config, SHAPE, device_gib=80)
    assert memory.trainer_state == pytest.approx(8.77e9 * 16 / 16 / 2**30, rel=0.01)
    assert memory.trainer < 80
    assert memory.rollout == pytest.approx(0.75 * 80)


def test_trainer_ranks_fill_nodes_first() -> None:
    four = placement(load_config(CONFIGS / "qwen3vl_8b_4node.toml"))
    assert [node.get("trainer_ranks", 0) for node in four] == [8, 8, 0, 0]
    assert [node.get("rollout_devices", 0) for node in four] == [0, 0, 8, 8]
    (one,) = placement(load_config(CONFIGS / "one_gpu.toml"))
    assert one == {"node": 0, "trainer_ranks": 1, "rollout_devices": 1}


def test_the_plan_is_one_document_or_lines_for_a_person(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_VL_8B))
    arguments = ["plan", str(CONFIGS / "qwen3vl_8b_4node.toml"), f"model.path={tmp_path}"]
    assert run([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["derived"]["trajectories_per_step"] == 512
    assert document["seconds"]["training"] == pytest.approx(1.5, rel=0.1)
    assert run(arguments) == 0
    assert "node 3" in capsys.readouterr().out


def test_without_the_model_the_plan_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", str(CONFIGS / "qwen3vl_8b_4node.toml"), "model.path=nowhere"]) == 0
    assert "nowhere/config.json: not there" in capsys.readouterr().out
