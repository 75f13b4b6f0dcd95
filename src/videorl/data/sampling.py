"""Which frames, and how large: the arithmetic that decoder, prompt and reports share."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from jaxtyping import Int32

from videorl.types import FrameSampling, Media

PATCH_SIDE = 32  # pixels of one vision token's side: patch 16, merged 2 x 2
FRAMES_PER_PATCH = 2
_MAX_ASPECT = 200
_EPSILON = 1e-6  # 4 s at 30 fps sums to 3.9999999


def sampling_for(media: Media, default: FrameSampling) -> FrameSampling:
    """The run's sampling with what this row sets itself; counts and areas as whole numbers."""
    own = {name: value if name == "fps" else int(value) for name, value in media.limits.items()}
    return replace(default, **own)


def frame_count(duration: float, total: int, sampling: FrameSampling) -> int:
    """n = floor_even(min(duration·fps, max_frames, total)), at least min_frames; always even, at least 2.

    Args:
        duration: seconds of the clip.
        total: frames of the clip, at least 1.
    """
    wanted = min(duration * sampling.fps + _EPSILON, sampling.max_frames, total)
    least = FRAMES_PER_PATCH * math.ceil(max(sampling.min_frames, FRAMES_PER_PATCH) / FRAMES_PER_PATCH)
    return max(FRAMES_PER_PATCH * int(wanted / FRAMES_PER_PATCH), least)


def frame_indices(total: int, count: int) -> Int32[np.ndarray, "n"]:
    """round(linspace(0, total - 1, count)); frames repeat where `count` exceeds `total`."""
    return np.linspace(0, total - 1, count).round().astype(np.int32)


def fit_size(height: int, width: int, sampling: FrameSampling) -> tuple[int, int]:
    """Height and width in pixels: multiples of 32, area within the sampling's bounds, aspect kept as nearly as can be.

    The rule of Qwen's `smart_resize`, applied to a single frame.

    Raises:
        ValueError: a picture more than 200 times as long as wide.
    """
    if max(height, width) > _MAX_ASPECT * min(height, width):
        raise ValueError(f"a picture of {width} x {height} is more than {_MAX_ASPECT} times as long as wide")
    fitted_h = max(PATCH_SIDE, round(height / PATCH_SIDE) * PATCH_SIDE)
    fitted_w = max(PATCH_SIDE, round(width / PATCH_SIDE) * PATCH_SIDE)
    if fitted_h * fitted_w > sampling.max_pixels:
        shrink = math.sqrt(height * width / sampling.max_pixels)
        fitted_h = max(PATCH_SIDE, math.floor(height / shrink / PATCH_SIDE) * PATCH_SIDE)
        fitted_w = max(PATCH_SIDE, math.floor(width / shrink / PATCH_SIDE) * PATCH_SIDE)
    elif fitted_h * fitted_w < sampling.min_pixels:
        grow = math.sqrt(sampling.min_pixels / (height * width))
        fitted_h = math.ceil(height * grow / PATCH_SIDE) * PATCH_SIDE
        fitted_w = math.ceil(width * grow / PATCH_SIDE) * PATCH_SIDE
    return fitted_h, fitted_w


def vision_tokens(frames: int, height: int, width: int) -> int:
    """Tokens of `frames` frames of height x width pixels, markers not counted."""
    return (frames // FRAMES_PER_PATCH) * (height // PATCH_SIDE) * (width // PATCH_SIDE)
