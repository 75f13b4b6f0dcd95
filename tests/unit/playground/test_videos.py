"""Clips as files."""

import subprocess
import sys
from pathlib import Path

import av
import numpy as np

from videorl.playground.questions import draw_item
from videorl.playground.scenes import paint
from videorl.playground.videos import FPS, FRAMES, HEIGHT, SECONDS, WIDTH, write_mp4

WRITE_ONE = """
import sys, numpy as np
from pathlib import Path
from videorl.playground.questions import draw_item
from videorl.playground.scenes import paint
from videorl.playground.videos import write_mp4
write_mp4(Path(sys.argv[1]), paint(draw_item("pattern", 5, np.random.default_rng(7)).scene))
"""


def test_a_clip_is_h264_with_the_times_it_was_made_with(tmp_path: Path) -> None:
    clip = paint(draw_item("colour", 4, np.random.default_rng(0)).scene)
    write_mp4(tmp_path / "clip.mp4", clip)
    with av.open(str(tmp_path / "clip.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.width, stream.height) == ("h264", WIDTH, HEIGHT)
        times = [frame.time for frame in container.decode(stream)]
    assert times == [i / FPS for i in range(FRAMES)]
    assert len(times) == FPS * SECONDS


def test_the_codec_keeps_what_matters(tmp_path: Path) -> None:
    clip = paint(draw_item("order", 4, np.random.default_rng(0)).scene)
    write_mp4(tmp_path / "clip.mp4", clip)
    with av.open(str(tmp_path / "clip.mp4")) as container:
        decoded = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    assert np.abs(decoded.mean((1, 2)) - clip.mean((1, 2))).max() < 6


def test_another_process_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4"):
        subprocess.run([sys.executable, "-c", WRITE_ONE, str(tmp_path / name)], check=True, timeout=120)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()
