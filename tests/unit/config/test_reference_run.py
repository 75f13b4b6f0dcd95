"""The preset of the reference run holds every value of the published one."""

from __future__ import annotations

from pathlib import Path

from videorl.config import load_config
from videorl.config.load import all_keys
from videorl.config.schema import Config

PRESET = Path(__file__).parents[3] / "configs" / "qwen3vl_8b_4node.toml"

REFERENCE = {
    # base model: Qwen3-VL-8B-Instruct, cold start, resumed automatically, stopped by plan
    "run.resume": "auto",
    "run.max_steps": 250,
    "model.family": "qwen3_vl",
    "model.dtype": "bfloat16",
    "model.freeze_vision": False,
    # algorithm: GRPO, groups of 8, no KL, exploration off
    "algo.group_size": 8,
    "algo.kl_coef": 0.0,
    "algo.entropy_coef": 0.0,
    # reward: 0.8·accuracy + 0.2·format, at least 100 characters of thought
    "reward.name": "letter",
    "reward.format_weight": 0.2,
    "reward.min_think_chars": 100,
    # batch: 16 prompts an update, 4 updates a fit step
    "trainer.prompts_per_update": 16,
    "trainer.updates_per_step": 4,
    # loss: ratio clip 0.2 / 0.3, dual clip 10
    "algo.clip_low": 0.2,
    "algo.clip_high": 0.3,
    "algo.dual_clip": 10.0,
    "algo.importance": "none",
    "algo.ratio_level": "token",
    # optimizer: AdamW
    "trainer.lr": 1e-6,
    "trainer.warmup_steps": 25,
    "trainer.grad_clip": 1.0,
    "trainer.betas": (0.9, 0.999),
    "trainer.weight_decay": 0.01,
    # asynchrony
    "async.staleness": 0.4,
    "async.max_lag": 2,
    # data: 2 epochs, at most 24 frames of 100k pixels
    "data.epochs": 2,
    "data.max_frames": 24,
    "data.max_pixels": 100_000,
    "data.max_prompt_tokens": 17_408,
    "rollout.max_response_tokens": 16_384,
    # engine
    "rollout.gpu_memory_utilization": 0.75,
    "rollout.enforce_eager": True,
    "rollout.temperature": 1.0,
    "rollout.top_p": 1.0,
    "rollout.top_k": -1,
    "rollout.min_tokens": 0,
    # topology: 2 trainer nodes, 2 rollout nodes of 8 GPUs, tensor parallelism 2
    "cluster.device": "gpu",
    "cluster.nodes": 4,
    "cluster.devices_per_node": 8,
    "cluster.trainer_ranks": 16,
    "cluster.rollout_devices": 16,
    "rollout.tensor_parallel": 2,
    # evaluation: greedy, every 20 fit steps, one device a replica
    "eval.every": 20,
    "eval.temperature": 0.0,
    "eval.tensor_parallel": 1,
}


def value_of(config: Config, key: str) -> object:
    section, _, name = key.partition(".")
    return getattr(getattr(config, "async_" if section == "async" else section), name)


def test_every_value_is_the_references() -> None:
    config = load_config(PRESET)
    assert set(REFERENCE) <= set(all_keys())
    assert {key: value_of(config, key) for key in REFERENCE} == REFERENCE


def test_what_follows_from_them_is_the_references() -> None:
    config = load_config(PRESET)
    assert config.trajectories_per_step == 512
    assert config.replicas == 8
    assert config.max_outstanding == 89  # floor(1.4 x 64)
    assert config.model.path.name == "Qwen3-VL-8B-Instruct"
