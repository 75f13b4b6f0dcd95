"""Decoded frames as vLLM's video input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from videorl.types import Frames, Prompt


def media_inputs(prompt: Prompt, frames: Sequence[Frames]) -> dict[str, Any]:
    videos = [
        (
            f.pixels,
            {
                "fps": 1.0,
                "frames_indices": f.timestamps.tolist(),
                "total_num_frames": len(f.timestamps),
                "duration": float(f.timestamps[-1]),
                "do_sample_frames": False,
            },
        )
        for f in frames
    ]
    return {
        "multi_modal_data": {"video": videos},
        "multi_modal_uuids": {"video": [ref.key for ref in prompt.frames]},
        "mm_processor_kwargs": {"do_sample_frames": False, "do_resize": False},
    }
