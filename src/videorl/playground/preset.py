"""The settings of the playground's runs, where a program makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from videorl.playground.world import BENCHMARKS, benchmark_path

Tree = dict[str, dict[str, Any]]

# A clip gives eight frames of 64 x 96; a prompt has about 90 tokens, a response about 36.
FRAMES: dict[str, Any] = {"fps": 2.0, "max_frames": 8, "max_pixels": 8_192, "max_prompt_tokens": 192}
MAX_RESPONSE_TOKENS = 64


def grpo(world: Path, run_dir: Path, seed: int = 0) -> Tree:
    """Asynchronous GRPO from the playground's base on two CPU cores: two trainer ranks, two replicas.

    Args:
        world: a playground folder, as `make_playground` leaves it.
    """
    world = world.resolve()
    return {
        "run": {"dir": str(run_dir.resolve()), "seed": seed, "max_steps": 20},
        "model": {"path": str(world / "base")},
        "data": {
            "train": [str(world / "train-*.parquet")],
            "media_root": str(world),
            "decode_workers": 1,
            **FRAMES,
        },
        "algo": {"group_size": 8},
        "rollout": {
            "max_response_tokens": MAX_RESPONSE_TOKENS,
            "block_size": 32,
            "max_num_seqs": 128,
            "max_batched_tokens": 2_048,
        },
        "trainer": {
            "prompts_per_update": 16,
            "updates_per_step": 2,
            "lr": 2e-4,
            "vision_lr_scale": 0.1,
            "warmup_steps": 3,
            "token_budget": 8_192,
            "activation_checkpointing": False,
        },
        "checkpoint": {"every": 10},
        "eval": {
            "benchmarks": {benchmark.name: str(benchmark_path(world, benchmark)) for benchmark in BENCHMARKS},
            "media_root": str(world),
            "every": 10,
            "max_response_tokens": MAX_RESPONSE_TOKENS,
        },
        "cluster": {"device": "cpu", "devices_per_node": 4, "trainer_ranks": 2, "rollout_devices": 2},
    }
