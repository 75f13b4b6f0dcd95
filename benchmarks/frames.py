"""Frames from the store, beside decoding again, a plain PyAV loop, and pixels that travel.

    python benchmarks/frames.py [VIDEO ...]

CPU-seconds, single-threaded, the mean over the videos; without names, three clips of 1280 x 720 are rendered (20 s at
30 frames a second, H.264, a keyframe every 250 frames).
"""

from __future__ import annotations

import argparse
import copy
import json
import pickle
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import psutil
from av.video.stream import VideoStream
from PIL import Image

from videorl.data.codecs import Codec, read_frames, write_frames
from videorl.data.decoding import decode
from videorl.data.pool import DecoderPool
from videorl.data.sampling import frame_indices
from videorl.data.store import FrameStore
from videorl.types import (
    FrameRef,
    Frames,
    FrameSampling,
    Group,
    IssuedQuestion,
    Media,
    Prompt,
    Question,
    Rollout,
    Score,
    ScoredRollout,
)

REFERENCE = FrameSampling(fps=2.0)  # 24 frames of at most 100,000 pixels
LONG = FrameSampling(fps=8.0, max_frames=128, max_pixels=262_144)
REPEATS = 5
RESPONSES, TOKENS = 8, 92  # of a group of the reference run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="*", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        videos = options.videos or [render(Path(folder) / f"{i}.mp4", seed=i) for i in range(3)]
        media = [Media("video", str(video.absolute())) for video in videos]
        results = [
            warm_store(media, Path(folder)),
            plain_loop(media),
            queue_bytes(media[0]),
            *(codec_cost(media, codec, s, Path(folder)) for s in (REFERENCE, LONG) for codec in ("lossless", "jpeg")),
        ]
    machine = f"{platform.processor() or platform.machine()}, {psutil.cpu_count()} cores"
    print(json.dumps([result | {"machine": machine} for result in results], indent=2))


def warm_store(media: Sequence[Media], folder: Path) -> dict[str, Any]:
    """All pixels of a video read from the store, against decoding it again."""
    pool = DecoderPool(1, timeout=600.0)
    try:
        store = FrameStore(folder / "store", REFERENCE, pool)
        for medium in media:
            store.load(store.reference(medium))
        warm = cpu_seconds(lambda: [np.array(store.load(store.reference(m)).pixels) for m in media]) / len(media)
    finally:
        pool.close()
    again = cpu_seconds(lambda: [decode(m, REFERENCE) for m in media]) / len(media)
    counts = {"videos": len(media), "frames": [list(decode(medium, REFERENCE).pixels.shape) for medium in media]}
    return line("frames/warm_store", warm, again, again / warm, "CPU-seconds a video", counts)


def plain_loop(media: Sequence[Media]) -> dict[str, Any]:
    """Sampled frames a CPU-second: ours, against decoding every frame and keeping the wanted ones."""
    shapes = [decode(medium, REFERENCE).pixels.shape for medium in media]
    frames = sum(shape[0] for shape in shapes)
    ours = frames / cpu_seconds(lambda: [decode(medium, REFERENCE) for medium in media])
    theirs = frames / cpu_seconds(lambda: [every_frame(m.path, s) for m, s in zip(media, shapes, strict=True)])
    counts = {"videos": len(media), "frames": frames}
    return line("frames/plain_pyav_loop", ours, theirs, ours / theirs, "frames a CPU-second", counts)


def every_frame(path: str, shape: tuple[int, ...]) -> np.ndarray:
    """The loop that is usually written."""
    count, height, width, _ = shape
    with av.open(path) as container:
        wanted = set(frame_indices(container.streams.video[0].frames, count).tolist())
        pictures = [frame.to_image() for i, frame in enumerate(container.decode(video=0)) if i in wanted]
    return np.stack([np.asarray(p.resize((width, height), Image.Resampling.BICUBIC)) for p in pictures])


def queue_bytes(medium: Media) -> dict[str, Any]:
    """A whole group as it travels, against the fp32 pixels that travel with each trajectory elsewhere."""
    frames = decode(medium, REFERENCE)
    group = a_group(FrameRef("0" * 40, medium, REFERENCE), frames)
    ours, theirs = len(pickle.dumps(group)), RESPONSES * frames.pixels.size * 4
    counts = {"responses": RESPONSES, "tokens": TOKENS, "frames": list(frames.pixels.shape)}
    return line("frames/queue_bytes", ours, theirs, theirs / ours, "bytes a group", counts)


def codec_cost(media: Sequence[Media], codec: Codec, sampling: FrameSampling, folder: Path) -> dict[str, Any]:
    """Size of the store's forms against raw, and what reading costs."""
    paths = {form: [folder / f"{form}-{i}" for i in range(len(media))] for form in ("raw", codec)}
    decoded = [decode(medium, sampling) for medium in media]
    size, read = {}, {}
    for form, files in paths.items():
        for path, frames in zip(files, decoded, strict=True):
            write_frames(path, frames, form)
        size[form] = sum(path.stat().st_size for path in files) / len(files) / 1e6  # MB a video: GB per 1,000
        read[form] = cpu_seconds(lambda files=files: [np.array(read_frames(p).pixels) for p in files]) / len(files)
    name = f"frames/{codec}_{sampling.max_frames}x{sampling.max_pixels // 1000}k"
    counts = {
        "videos": len(media),
        "frames": [list(frames.pixels.shape) for frames in decoded],
        "read_seconds": round(read[codec], 5),
        "raw_read_seconds": round(read["raw"], 5),
        "write_seconds": round(cpu_seconds(lambda: write_frames(folder / "w", decoded[0], codec), 1), 5),
    }
    return line(name, size[codec], size["raw"], size["raw"] / size[codec], "GB per 1,000 videos", counts)


def cpu_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least of several measurements."""
    return min(_once(work) for _ in range(repeats))


def _once(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def line(name: str, ours: float, theirs: float, ratio: float, unit: str, counts: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ours": ours, "theirs": theirs, "ratio": ratio, "unit": unit, "counts": counts}


def a_group(ref: FrameRef, frames: Frames) -> Group:
    """A group as large as one of the reference run."""
    count, height, width, _ = frames.pixels.shape
    vision = count // 2 * (height // 32) * (width // 32)
    ids = np.arange(200 + vision + 10 * count, dtype=np.int32)
    question = Question("set/1", "multiple_choice", "word " * 40, ("an option",) * 4, 0, (ref.media,), "set")
    rollout = Rollout(ids[:TOKENS], np.zeros(TOKENS, np.float32), np.zeros(TOKENS, np.int32), "word " * TOKENS, "stop")
    prompt = Prompt("word " * 60, ids[:150], ids, (ref,))
    responses = tuple(copy.deepcopy(ScoredRollout(rollout, Score(1.0, 1.0, 1.0, "A"))) for _ in range(RESPONSES))
    return Group(IssuedQuestion(0, 0, question), prompt, responses, 0, 1.0)


def render(path: Path, seed: int) -> Path:
    """Twenty seconds of textured, moving, noisy picture: about as costly to decode as camera video."""
    rng = np.random.default_rng(seed)
    texture = rng.integers(0, 255, (90, 160, 3), np.uint8).repeat(10, 0).repeat(10, 1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"preset": "veryfast", "crf": "28"})
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 1280, 720, "yuv420p", 250
        for i in range(600):
            picture = np.roll(texture, (2 * i, 3 * i), (0, 1))[:720, :1280]
            noisy = np.clip(picture + rng.normal(0, 4, (720, 1280, 1)), 0, 255).astype(np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(noisy, format="rgb24")))
        container.mux(stream.encode(None))
    return path


if __name__ == "__main__":
    main()
