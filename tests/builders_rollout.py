"""Frames, prompts, rollouts and an independent transformers oracle for tests of rollout/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

from videorl.types import FrameRef, Frames, FrameSampling, Media, Prompt, Rollout, Sampling, WeightHandle


class MemoryFrames:
    """A FrameSource (videorl.data.source) that holds its frames."""

    def __init__(self) -> None:
        self.frames: dict[str, Frames] = {}

    def add(self, frames: Frames) -> FrameRef:
        media = Media("video", f"/memory/{len(self.frames)}.mp4")
        ref = self.reference(media)
        self.frames[ref.key] = frames
        return ref

    def reference(self, media: Media) -> FrameRef:
        return FrameRef(media.path, media, FrameSampling())

    def load(self, ref: FrameRef) -> Frames:
        return self.frames[ref.key]


def make_frames(seed: int, count: int = 4, height: int = 64, width: int = 96) -> Frames:
    pixels = np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    return Frames(pixels, 0.5 * np.arange(count, dtype=np.float64), np.arange(count, dtype=np.int32))


def rollout(text: str, tokens: Sequence[int] = (1, 2), version: int = 0) -> Rollout:
    count = len(tokens)
    return Rollout(
        np.array(tokens, np.int32), np.full(count, -1.0, np.float32), np.full(count, version, np.int32), text, "stop"
    )


class ScriptedEngine:
    """An Engine that answers every request alike, or fails it."""

    def __init__(self, name: str, rollouts: Sequence[Rollout] = (), fault: Exception | None = None) -> None:
        self.name = name
        self.requests: list[tuple[str, Prompt, int, Sampling]] = []
        self._rollouts = list(rollouts)
        self._fault = fault

    async def generate(self, request_id: str, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        self.requests.append((request_id, prompt, n, sampling))
        if self._fault:
            raise self._fault
        return self._rollouts

    async def load_weights(self, handle: WeightHandle) -> None: ...

    async def version(self) -> int:
        return 0

    async def close(self) -> None: ...


class Oracle:
    """transformers' own processor and model: what the engine is compared with."""

    def __init__(self, folder: Path, forbidden: Sequence[int]) -> None:
        self.processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
        self.model = Qwen3VLForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", local_files_only=True
        ).eval()
        self._forbidden = torch.tensor(forbidden, dtype=torch.long)

    def prompt(self, text: str, ref: FrameRef, frames: Frames) -> Prompt:
        content = [{"type": "video"}, {"type": "text", "text": text}]
        chat = self.processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        bare = self.processor.tokenizer(chat)["input_ids"]
        return Prompt(
            chat, np.array(bare, np.int32), self._inputs(chat, frames)["input_ids"][0].numpy().astype(np.int32), (ref,)
        )

    def logprobs(self, prompt: Prompt, frames: Frames, rollout: Rollout, temperature: float) -> np.ndarray:
        """float32 [R]: of each response token, masked and at `temperature`, by one ordinary forward pass."""
        logits = self.logits(prompt, frames, rollout) / temperature
        logits[:, self._forbidden] = float("-inf")
        chosen = torch.from_numpy(rollout.token_ids.astype(np.int64))[:, None]
        return logits.log_softmax(-1).gather(1, chosen)[:, 0].numpy()

    def logits(self, prompt: Prompt, frames: Frames, rollout: Rollout) -> torch.Tensor:
        """float32 [R, V]: what predicts each response token, unmasked."""
        return self._forward(prompt, frames, rollout.token_ids).logits[0, len(prompt.token_ids) - 1 : -1]

    def hidden_states(self, prompt: Prompt, frames: Frames) -> torch.Tensor:
        """float32 [P, D]: what the head is given at each place of the prompt."""
        no_response = np.array([], np.int32)
        return self._forward(prompt, frames, no_response, output_hidden_states=True).hidden_states[-1][0]

    def _forward(self, prompt: Prompt, frames: Frames, response: np.ndarray, **wanted: bool) -> Any:
        inputs = self._inputs(prompt.text, frames)
        tail = torch.from_numpy(response.astype(np.int64))[None]
        inputs["input_ids"] = torch.cat([inputs["input_ids"], tail], 1)
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        inputs["mm_token_type_ids"] = torch.cat([inputs["mm_token_type_ids"], torch.zeros_like(tail)], 1)
        with torch.no_grad():
            return self.model(**inputs, **wanted)

    def load(self, folder: Path) -> None:
        """Take the weights of a staged folder."""
        for file in sorted(folder.glob("*.safetensors")):
            self.model.load_state_dict(load_file(file), strict=False)
        self.model.tie_weights()

    def _inputs(self, chat: str, frames: Frames) -> dict[str, torch.Tensor]:
        metadata = {
            "fps": 1.0,
            "frames_indices": frames.timestamps.tolist(),
            "total_num_frames": len(frames.timestamps),
            "duration": float(frames.timestamps[-1]),
        }
        inputs = dict(
            self.processor(
                text=[chat],
                videos=[torch.from_numpy(frames.pixels.copy()).permute(0, 3, 1, 2)],
                video_metadata=[metadata],
                do_sample_frames=False,
                do_resize=False,
                return_tensors="pt",
            )
        )
        inputs.pop("video_metadata", None)
        return inputs


def perturbed(model: torch.nn.Module, seed: int, scale: float = 0.05) -> list[tuple[str, torch.Tensor]]:
    """Every parameter under its checkpoint name, with noise of its own size."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (name, p.detach() + scale * p.detach().std().nan_to_num(0.1) * torch.randn(p.shape, generator=generator))
        for name, p in model.named_parameters()
    ]
