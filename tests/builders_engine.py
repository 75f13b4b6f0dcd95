"""A real vLLM engine on a tiny model, beside transformers with the same weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from builders_rollout import MemoryFrames, Oracle, make_frames
from videorl.data.tokens import TokenRules
from videorl.playground.tiny_model import make_tiny_model
from videorl.rollout.settings import EngineSettings
from videorl.rollout.vllm_engine import VllmEngine
from videorl.rollout.weights import SharedMemorySender, shared_memory_root
from videorl.types import Frames, Prompt, Rollout, Sampling, WeightHandle

TOLERANCE = 1e-4


@dataclass(slots=True)
class RunningEngine:
    folder: Path
    settings: EngineSettings
    engine: VllmEngine
    source: MemoryFrames
    sender: SharedMemorySender
    oracle: Oracle
    handle: WeightHandle  # of the newest version; all staged ones are kept

    async def publish(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> WeightHandle:
        """A new version on the engine and in the oracle."""
        handle = self.stage(tensors)
        await self.engine.load_weights(handle)
        self.oracle.load(Path(handle.location))
        return handle

    def stage(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> WeightHandle:
        self.handle = self.sender.stage(self.handle.version + 1, tensors)
        return self.handle

    def ask(self, seed: int, frames: int = 4, words: int = 1) -> tuple[Prompt, Frames]:
        """A prompt about a video of its own."""
        video = make_frames(seed, frames)
        text = f"Question {seed}{' colour' * words}?\nA. red\nB. blue"
        prompt = self.oracle.prompt(text, self.source.add(video), video)
        return prompt, video

    def difference(self, prompt: Prompt, video: Frames, rollout: Rollout, sampling: Sampling) -> np.ndarray:
        """float [R]: |engine's log-prob - oracle's| of each token, under the oracle's present weights."""
        return np.abs(self.oracle.logprobs(prompt, video, rollout, sampling.temperature) - rollout.logprobs)

    async def close(self) -> None:
        await self.engine.close()
        self.sender.close()


async def start_tiny_engine(folder: Path, *, tie: bool) -> RunningEngine:
    make_tiny_model(folder / "base", seed=3, tie=tie)
    tokens = TokenRules.of_model(folder / "base")
    settings = EngineSettings(
        folder / "base",
        "cpu",
        "float32",
        tokens,
        max_model_len=1_024,
        seed=1,
        block_size=32,
        kv_cache_gib=0.25,
        max_num_seqs=32,
        max_batched_tokens=64,
        media_bytes=1 << 20,
    )
    source = MemoryFrames()
    oracle = Oracle(folder / "base", tokens.forbidden)
    sender = SharedMemorySender(shared_memory_root() / f"videorl-test-{folder.name}", torch.float32)
    handle = sender.stage(0, [(name, p.detach()) for name, p in oracle.model.named_parameters()])
    engine = await VllmEngine.start(settings, source, f"tiny-{'tied' if tie else 'untied'}")
    return RunningEngine(folder / "base", settings, engine, source, sender, oracle, handle)
