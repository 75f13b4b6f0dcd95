"""Scenes as pixels, and pixels as H.264 files.

A clip is 64 x 96 pixels at 8 frames a second for 4 seconds. The background is mid-grey, which is zero after Qwen3-VL's
normalisation, with a little noise. The same frames give the same bytes: no dates in the container, one encoder thread,
and without x264's macroblock tree, whose output was seen to vary between processes.
"""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
from jaxtyping import UInt8

HEIGHT, WIDTH = 64, 96
FPS = 8
SECONDS = 4
FRAMES = FPS * SECONDS

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (215, 35, 35),
    "green": (40, 165, 50),
    "blue": (40, 70, 215),
    "yellow": (230, 215, 40),
    "purple": (145, 45, 165),
    "orange": (240, 135, 25),
    "white": (245, 245, 245),
    "black": (15, 15, 15),
}
X264 = {"crf": "16", "preset": "veryfast", "x264-params": "threads=1:mbtree=0"}
GREY = (128, 128, 128)

Clip = UInt8[np.ndarray, "T H W 3"]


def blank_clip() -> Clip:
    """A clip with nothing in it but mid-grey."""
    return np.full((FRAMES, HEIGHT, WIDTH, 3), GREY, np.uint8)


def add_noise(clip: Clip, rng: np.random.Generator) -> Clip:
    """The clip with one brightness offset and pixel noise, both small; no two clips are alike."""
    offset = rng.integers(-6, 7, size=3)
    noise = rng.integers(-5, 6, size=(1, *clip.shape[1:3], 1))
    return np.clip(clip.astype(np.int16) + offset + noise, 0, 255).astype(np.uint8)


def write_mp4(path: Path, clip: Clip) -> None:
    """Encode `clip` as H.264 in an mp4 file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libx264", rate=FPS, options=X264)
        stream.width, stream.height, stream.pix_fmt = clip.shape[2], clip.shape[1], "yuv420p"
        for pixels in clip:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
