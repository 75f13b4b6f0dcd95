"""Every setting that can change an answer. Shown, recorded in the report, and part of the key of the answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from transformers import AutoConfig

from videorl.config import Config
from videorl.data.tokens import TokenRules
from videorl.errors import UserError
from videorl.eval.prompts import PromptForm
from videorl.rollout.settings import EngineSettings
from videorl.types import Sampling

ROWS_IN_FLIGHT = 32  # that one replica holds at once

Device = Literal["cpu", "gpu"]
Dtype = Literal["float32", "bfloat16"]


@dataclass(slots=True, frozen=True)
class EvalSettings:
    """How the questions are asked and judged. Replicas, devices and the other benchmarks do not belong here."""

    prompt: PromptForm
    template: str  # of the form "train"
    subtitles: bool
    fps: float
    max_frames: int
    min_frames: int
    max_pixels: int
    min_pixels: int
    store_codec: str
    max_prompt_tokens: int
    max_response_tokens: int
    temperature: float
    top_p: float
    top_k: int
    dtype: Dtype
    reward: str
    format_weight: float
    min_think_chars: int

    @classmethod
    def of_config(cls, config: Config, form: PromptForm, *, subtitles: bool) -> EvalSettings:
        data, reward = config.data, config.reward
        return cls(
            prompt=form,
            template=data.prompt,
            subtitles=subtitles,
            fps=data.fps,
            max_frames=data.max_frames,
            min_frames=data.min_frames,
            max_pixels=data.max_pixels,
            min_pixels=data.min_pixels,
            store_codec=data.store_codec,
            max_prompt_tokens=data.max_prompt_tokens,
            max_response_tokens=config.eval.max_response_tokens,
            temperature=config.eval.temperature,
            top_p=1.0,
            top_k=-1,
            dtype=compute_dtype(config),
            reward=reward.name,
            format_weight=reward.format_weight,
            min_think_chars=reward.min_think_chars,
        )

    @property
    def sampling(self) -> Sampling:
        return Sampling(self.temperature, self.max_response_tokens, self.top_p, self.top_k)


def device_of(config: Config) -> Device:
    """The config's device; auto is a GPU where torch sees one."""
    if config.cluster.device != "auto":
        return config.cluster.device
    return "gpu" if torch.cuda.is_available() else "cpu"


def compute_dtype(config: Config) -> Dtype:
    """The config's precision; auto is bfloat16 on a GPU and float32 on a CPU."""
    if config.model.dtype != "auto":
        return config.model.dtype
    return "bfloat16" if device_of(config) == "gpu" else "float32"


def replica_settings(config: Config, model: Path) -> list[EngineSettings]:
    """What each evaluation replica of a model folder is started with: as in training, with evaluation's own limits.

    Raises:
        UserError: the model has fewer positions than the longest prompt and answer need.
    """
    tokens, device = TokenRules.of_model(model), device_of(config)
    longest = config.data.max_prompt_tokens + config.eval.max_response_tokens
    positions = AutoConfig.from_pretrained(model, local_files_only=True).get_text_config().max_position_embeddings
    if longest > positions:
        raise UserError(
            f"data.max_prompt_tokens + eval.max_response_tokens = {longest} are more than the {positions} positions of "
            f"{model}: lower eval.max_response_tokens"
        )
    return [
        replace(
            EngineSettings.of_config(config, tokens, number, device=device, weight_transport="shm", folder=model),
            max_model_len=longest,
            tensor_parallel=config.eval.tensor_parallel,
            max_num_seqs=min(config.rollout.max_num_seqs, ROWS_IN_FLIGHT),
            media_in_flight=ROWS_IN_FLIGHT,
        )
        for number in range(config.eval.replicas)
    ]
