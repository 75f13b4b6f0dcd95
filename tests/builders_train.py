"""Small training groups with real frames, a tiny model, and the same computation without any of our code."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from videorl.config import Config
from videorl.types import Branch, FrameRef, Frames, FrameSampling, Media, TrainGroup


@dataclass
class FramesInMemory:
    """A FrameSource over frames that a test made."""

    frames: dict[str, Frames] = field(default_factory=dict)

    def add(self, seed: int, count: int = 4, height: int = 64, width: int = 96) -> FrameRef:
        rng = np.random.default_rng(seed)
        key = f"video-{seed}-{count}x{height}x{width}"
        pixels = rng.integers(0, 255, (count, height, width, 3), dtype=np.uint8)
        self.frames[key] = Frames(pixels, np.arange(count) * 0.5, np.arange(count, dtype=np.int32))
        return FrameRef(key, Media("video", f"/nowhere/{key}.mp4"), FrameSampling())

    def reference(self, media: Media) -> FrameRef:
        raise NotImplementedError

    def load(self, ref: FrameRef) -> Frames:
        return self.frames[ref.key]


def tiny_config(folder: Path, **sections: dict[str, Any]) -> Config:
    tree: dict[str, Any] = {
        "model": {"path": str(folder)},
        "data": {"train": ["unused.parquet"], "max_prompt_tokens": 512},
        "rollout": {"max_response_tokens": 64, "temperature": 0.7},
        "trainer": {"token_budget": 4096, "lr": 1e-3, "warmup_steps": 0, "logprob_chunk": 7, "grad_clip": 1e9},
        "cluster": {"device": "cpu", "devices_per_node": 8},
    }
    for name, values in sections.items():
        tree[name.rstrip("_")] = tree.get(name.rstrip("_"), {}) | values
    return Config.model_validate(tree)


def make_group(
    source: FramesInMemory, model: Any, seed: int, lengths: list[int], videos: int = 1, advantage: float | None = None
) -> TrainGroup:
    """A group with random text, `videos` random videos written as the processor writes them, and random branches."""
    rng = np.random.default_rng(seed)
    config = model.config if hasattr(model, "config") else model
    words = np.arange(20, 120)
    refs = tuple(source.add(seed * 10 + v, count=2 + 2 * v + seed % 2 * 2) for v in range(videos))
    prompt = rng.choice(words, 5).tolist()
    for ref in refs:
        frames, height, width, _ = source.frames[ref.key].pixels.shape
        for _ in range(frames // 2):
            pads = [config.video_token_id] * ((height // 32) * (width // 32))
            prompt += [*rng.choice(words, 2), config.vision_start_token_id, *pads, config.vision_end_token_id]
    prompt += rng.choice(words, 7).tolist()
    branches = tuple(
        Branch(
            token_ids=rng.choice(words, n).astype(np.int32),
            old_logprobs=rng.normal(-4.5, 0.3, n).astype(np.float32),
            versions=np.zeros(n, dtype=np.int32),
            advantage=float(rng.normal()) if advantage is None else advantage,
        )
        for n in lengths
    )
    return TrainGroup(f"0:q{seed}", np.array(prompt, dtype=np.int32), refs, branches)


@dataclass
class SeparateSequences:
    """transformers alone, in float32 and eager attention: every response is a sequence of its own, pixels and all."""

    folder: Path
    temperature: float
    forbidden: np.ndarray

    def __post_init__(self) -> None:
        self.model = AutoModelForImageTextToText.from_pretrained(
            self.folder, dtype=torch.float32, attn_implementation="eager", local_files_only=True
        )
        self.processor = AutoProcessor.from_pretrained(self.folder, local_files_only=True)

    def logprobs(self, source: FramesInMemory, group: TrainGroup, branch: Branch) -> torch.Tensor:
        ids = torch.from_numpy(np.concatenate([group.prompt_ids, branch.token_ids])).long()[None]
        inputs: dict[str, Any] = {}
        if group.frames:
            videos = [source.load(ref).pixels for ref in group.frames]
            out = self.processor.video_processor(
                videos=videos, do_resize=False, do_sample_frames=False, return_tensors="pt"
            )
            types = (ids == self.model.config.video_token_id).int() * 2
            inputs = {
                "pixel_values_videos": out["pixel_values_videos"],
                "video_grid_thw": out["video_grid_thw"],
                "mm_token_type_ids": types,
            }
        logits = self.model(input_ids=ids, use_cache=False, **inputs).logits[0].double()
        start = len(group.prompt_ids)
        logits = logits[start - 1 : -1] / self.temperature
        logits[:, torch.from_numpy(self.forbidden).long()] = -torch.inf
        return logits.log_softmax(-1).gather(-1, ids[0, start:, None])[:, 0]
