"""The main job at playground size: videos, a tiny Qwen3-VL, asynchronous GRPO with two ranks and two replicas."""

from __future__ import annotations

from pathlib import Path

import tomli_w

from videorl.cluster.run import run
from videorl.config import load_config
from videorl.playground.world import make_playground

SEED = 0


def run_demo(out: Path) -> Path:
    """Everything under `out`; a second call goes on where the first one stopped. Returns the run directory."""
    world = make_playground(out / "playground", SEED)
    config_file = out / "demo.toml"
    config_file.write_text(tomli_w.dumps(demo_tree(world, out / "run")), encoding="utf-8")
    config = load_config(config_file)
    run(config)
    return config.run.dir


def demo_tree(world: Path, run_dir: Path) -> dict[str, dict[str, object]]:
    """The demo's config, as it is written to demo.toml."""
    world, run_dir = world.resolve(), run_dir.resolve()
    return {
        "run": {"dir": str(run_dir), "seed": SEED, "max_steps": 10},
        "model": {"path": str(world / "base")},
        "data": {
            "train": [str(world / "train-*.parquet")],
            "media_root": str(world),
            "fps": 2.0,
            "max_frames": 8,
            "max_pixels": 8_192,
            "max_prompt_tokens": 512,
            "decode_workers": 1,
        },
        "rollout": {"max_response_tokens": 64, "block_size": 32, "max_num_seqs": 64, "max_batched_tokens": 2_048},
        "trainer": {
            "prompts_per_update": 4,
            "updates_per_step": 2,
            "lr": 1e-4,
            "warmup_steps": 2,
            "token_budget": 4_096,
            "activation_checkpointing": False,
        },
        "checkpoint": {"every": 10},
        "cluster": {"device": "cpu", "devices_per_node": 4, "trainer_ranks": 2, "rollout_devices": 2},
    }
