"""What one rollout replica is told at its start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from videorl.config.schema import Config
from videorl.data.sampling import FRAMES_PER_PATCH, PATCH_SIDE
from videorl.data.tokens import TokenRules

PIXEL_BYTES = 3 * 4  # of a processed frame: three float32
TOKEN_BYTES = PIXEL_BYTES * FRAMES_PER_PATCH * PATCH_SIDE**2


@dataclass(slots=True, frozen=True)
class EngineSettings:
    """Everything an engine needs beside its frame source. Made from the config; travels to the replica's process."""

    model: Path
    device: Literal["cpu", "gpu"]
    dtype: Literal["float32", "bfloat16"]
    tokens: TokenRules
    max_model_len: int
    seed: int  # differs between replicas, or they would sample alike
    replica: int = 0  # its place among the replicas, from 0
    tensor_parallel: int = 1
    gpu_memory_utilization: float = 0.75
    enforce_eager: bool = True
    block_size: int | None = None
    kv_cache_gib: float = 1.0
    max_num_seqs: int = 256
    max_batched_tokens: int = 8_192
    media_bytes: int = 64 << 20  # the largest medium after preprocessing
    media_in_flight: int = 16  # media whose pixels must stay readable at one time
    weight_transport: Literal["shm", "nccl"] = "shm"
    start_timeout: float = 900.0
    request_timeout: float = 1_800.0
    load_timeout: float = 600.0

    @classmethod
    def of_config(
        cls,
        config: Config,
        tokens: TokenRules,
        replica: int,
        *,
        device: Literal["cpu", "gpu"],
        weight_transport: Literal["shm", "nccl"],
        folder: Path | None = None,
    ) -> EngineSettings:
        """The settings of replica number `replica`; device and transport are the resolved ones, never "auto".

        Args:
            folder: the model that it starts with, where that is not the config's base model (a checkpoint's `hf`).
        """
        rollout, dtype = config.rollout, config.model.dtype
        return cls(
            model=folder or config.model.path,
            device=device,
            dtype=("bfloat16" if device == "gpu" else "float32") if dtype == "auto" else dtype,
            tokens=tokens,
            max_model_len=config.max_model_len,
            seed=config.run.seed + replica,
            replica=replica,
            tensor_parallel=rollout.tensor_parallel,
            gpu_memory_utilization=rollout.gpu_memory_utilization,
            enforce_eager=rollout.enforce_eager,
            block_size=rollout.block_size,
            kv_cache_gib=rollout.kv_cache_gib,
            max_num_seqs=rollout.max_num_seqs,
            max_batched_tokens=rollout.max_batched_tokens,
            media_bytes=config.data.max_frames * config.data.max_pixels * PIXEL_BYTES,
            media_in_flight=-(-config.max_outstanding // config.replicas),
            weight_transport=weight_transport,
            start_timeout=rollout.start_timeout,
            request_timeout=rollout.request_timeout,
        )

    @property
    def media_tokens(self) -> int:
        """Vision tokens of the largest medium."""
        return -(-self.media_bytes // TOKEN_BYTES)

    @property
    def media_cache_gib(self) -> float:
        """Shared memory for processed media. Twice what is in flight: what leaves it before its last reader has seen
        it would end the engine, and the oldest goes first."""
        return max(0.25, 2 * self.media_bytes * self.media_in_flight / (1 << 30))
