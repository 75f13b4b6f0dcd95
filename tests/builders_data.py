"""Small videos whose frames carry their number, and rows of foreign formats."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.stream import VideoStream

from videorl.types import Media

CELLS = 4  # the picture is a board of 4 x 4 cells: three corners tell which way is up, the rest is the number in binary
_WHITE, _BLACK = 235, 16
_NUMBER_CELLS = [(r, c) for r in range(CELLS) for c in range(CELLS) if (r, c) not in ((0, 0), (0, 3), (3, 0), (3, 3))]

_FRAGMENTED = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}
# What people have: container, encoder, options of the muxer.
CONTAINERS = [
    ("mp4", "libx264", {}),
    ("mp4", "libx264", _FRAGMENTED),
    ("mp4", "libx265", {}),
    ("mp4", "libsvtav1", {}),
    ("mp4", "mpeg4", {}),
    ("mov", "libx264", {}),
    ("mkv", "libx264", {}),
    ("mkv", "libx265", {}),
    ("webm", "libvpx", {}),
    ("webm", "libvpx-vp9", {}),
    ("webm", "libsvtav1", {}),
    ("avi", "mpeg4", {}),
    ("avi", "libx264", {}),
]


def board(number: int, height: int = 96, width: int = 128) -> np.ndarray:
    """The picture of frame `number` (below 4096): uint8 [height, width, 3]."""
    cells = np.zeros((CELLS, CELLS), bool)
    cells[0, 0] = True
    for bit, cell in enumerate(_NUMBER_CELLS):
        cells[cell] = number >> bit & 1
    picture = np.kron(cells, np.ones((height // CELLS, width // CELLS)))
    return np.repeat(np.where(picture > 0, _WHITE, _BLACK).astype(np.uint8)[:, :, None], 3, axis=2)


def number_of(picture: np.ndarray) -> int | None:
    """The number that an upright board shows; None where it is not upright, or no board."""
    height, width = picture.shape[0] // CELLS, picture.shape[1] // CELLS
    lit = np.zeros((CELLS, CELLS), bool)
    for r in range(CELLS):
        for c in range(CELLS):
            cell = picture[r * height + height // 4 : (r + 1) * height - height // 4]
            brightness = cell[:, c * width + width // 4 : (c + 1) * width - width // 4].mean()
            if 80 < brightness < 175:
                return None
            lit[r, c] = brightness > 128
    if not lit[0, 0] or lit[0, 3] or lit[3, 0] or lit[3, 3]:
        return None
    return sum(int(lit[cell]) << bit for bit, cell in enumerate(_NUMBER_CELLS))


def write_clip(
    path: Path,
    times: Sequence[float],
    codec: str = "libx264",
    *,
    gop: int = 12,
    size: tuple[int, int] = (96, 128),
    muxer: dict[str, str] | None = None,
    turned: int = 0,
    audio: bool = False,
) -> Path:
    """Frames 0, 1, … shown at `times` (seconds, to the millisecond).

    `turned`: how many quarter turns counterclockwise a player must turn the stored pictures (mp4 and mov).
    """
    with av.open(str(path), "w", options=muxer or {}) as container:
        stream = container.add_stream(codec, rate=25)
        assert isinstance(stream, VideoStream)
        pictures = [np.rot90(board(i, *size), -turned) for i in range(len(times))]
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.gop_size = gop
        tick = Fraction(1, 1000)
        if path.suffix == ".avi":  # holds no times, only a rate
            tick = Fraction(times[1] if len(times) > 1 else 0.1).limit_denominator(1000)
            stream.codec_context.framerate = 1 / tick
        stream.codec_context.time_base = tick
        sound = container.add_stream("aac" if path.suffix != ".webm" else "libopus", rate=48_000) if audio else None
        for picture, time in zip(pictures, times, strict=True):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = round(time / float(tick)), tick
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if sound is not None:
            write_silence(container, sound, times[-1])
    if turned:
        set_rotation(path, turned)
    return path


def write_silence(container: av.container.OutputContainer, stream: av.AudioStream, seconds: float) -> None:
    for block in range(int(seconds * 48) + 1):
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 960), np.float32), format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 48_000, block * 960
        if block * 960 < seconds * 48_000:
            container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def set_rotation(path: Path, quarter_turns: int) -> None:
    """Write a display matrix into an mp4's or mov's track header: turn counterclockwise by so many quarters."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4
    matrix_at = at + (40 if data[at] == 0 else 52)
    a, b = {0: (1, 0), 1: (0, -1), 2: (-1, 0), 3: (0, 1)}[quarter_turns % 4]
    one = 1 << 16
    data[matrix_at : matrix_at + 36] = struct.pack(">9i", a * one, b * one, 0, -b * one, a * one, 0, 0, 0, 1 << 30)
    path.write_bytes(data)


def even_times(count: int, rate: float) -> list[float]:
    """`count` frames at a constant rate, to the millisecond."""
    return [round(i / rate, 3) for i in range(count)]


def uneven_times(count: int) -> list[float]:
    """A variable rate: gaps of 20 to 200 ms, and one of a second in the middle."""
    gaps = np.random.default_rng(7).integers(20, 200, count) / 1000
    gaps[count // 2] = 1.0
    return [round(float(t), 3) for t in np.concatenate([[0.0], np.cumsum(gaps)[:-1]])]


def video(path: Path, **fields: object) -> Media:
    return Media("video", str(path), **fields)  # type: ignore[arg-type]
