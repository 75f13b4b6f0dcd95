"""Pictures on disk as a video: a folder of frames, a list of frame files, or one image."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from videorl.data.sampling import fit_size, frame_count, frame_indices
from videorl.errors import QuestionDropped
from videorl.types import Drop, DropReason, Frames, FrameSampling, Media

_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})


def still_files(media: Media) -> list[Path]:
    """The picture files that a medium consists of, in order; empty for a video file."""
    if media.frames:
        return [Path(name) for name in media.frames]
    path = Path(media.path)
    if path.is_dir():
        return sorted((f for f in path.iterdir() if f.suffix.lower() in _SUFFIXES), key=_natural)
    return [path] if media.kind == "image" else []


def decode_stills(files: list[Path], media: Media, sampling: FrameSampling) -> Frames:
    """Files hold `fps` frames a second; an image is one frame, repeated.

    Raises:
        QuestionDropped: VIDEO_BROKEN.
    """
    times = np.arange(len(files)) / sampling.fps
    inside = np.flatnonzero((times >= (media.start or 0.0)) & (times < (np.inf if media.end is None else media.end)))
    if not len(inside):
        raise _broken(media.path, f"no frame between {media.start} and {media.end} s")
    count = frame_count(len(inside) / sampling.fps, len(inside), sampling) if media.kind == "video" else 2
    indices = inside[frame_indices(len(inside), count)].astype(np.int32)
    opened = {int(i): _open(files[i]) for i in np.unique(indices)}
    first = opened[int(indices[0])]
    height, width = fit_size(first.height, first.width, sampling)
    pictures = {i: _resized(image, height, width) for i, image in opened.items()}
    return Frames(np.stack([pictures[int(i)] for i in indices]), times[indices].astype(np.float64), indices)


def _open(path: Path) -> Image.Image:
    try:
        with Image.open(path) as image:
            return ImageOps.exif_transpose(image).convert("RGB")
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise _broken(str(path), str(error)) from None


def _resized(image: Image.Image, height: int, width: int) -> UInt8[np.ndarray, "H W 3"]:
    return np.asarray(image.resize((width, height), Image.Resampling.BICUBIC))


def _natural(path: Path) -> list[tuple[int, str]]:
    """frame2 before frame10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _broken(path: str, detail: str) -> QuestionDropped:
    return QuestionDropped(Drop(DropReason.VIDEO_BROKEN, f"{path}: {detail}"))
