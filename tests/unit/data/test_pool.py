"""Decoder processes that hang, crash or outlive their parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import decoder_that_hangs
from builders_data import even_times, number_of, video, write_clip
from videorl.data.codecs import read_frames
from videorl.data.pool import DecoderPool
from videorl.errors import QuestionDropped, VideorlError
from videorl.types import DropReason, FrameSampling

MISBEHAVING = (sys.executable, decoder_that_hangs.__file__)
SAMPLING = FrameSampling(fps=4.0)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "good.mp4", even_times(20, 10))


@pytest.fixture(params=[60.0])
def pool(request: pytest.FixtureRequest) -> Iterator[DecoderPool]:
    pool = DecoderPool(1, timeout=request.param, command=MISBEHAVING)
    yield pool
    pool.close()


def assert_decodes(pool: DecoderPool, clip: Path, target: Path) -> None:
    pool.decode_to(target, video(clip), SAMPLING, "raw")
    frames = read_frames(target)
    assert [number_of(p) for p in frames.pixels] == frames.indices.tolist()


def reason_of(pool: DecoderPool, path: Path) -> tuple[DropReason, str]:
    with pytest.raises(QuestionDropped) as dropped:
        pool.decode_to(path.parent / "out", video(path), SAMPLING, "raw")
    assert not (path.parent / "out").exists()
    return dropped.value.drop.reason, dropped.value.drop.detail


@pytest.mark.parametrize("pool", [3.0], indirect=True)
@pytest.mark.parametrize("how", ["hang", "stuck"])
def test_a_decoder_that_hangs_is_ended_at_its_deadline_and_replaced(
    pool: DecoderPool, clip: Path, tmp_path: Path, how: str
) -> None:
    reason, detail = reason_of(pool, tmp_path / f"{how}.mp4")
    assert reason is DropReason.DECODE_TIMEOUT
    assert f"{how}.mp4" in detail
    assert_decodes(pool, clip, tmp_path / "frames")


def test_a_decoder_that_crashes_drops_its_video_and_is_replaced(pool: DecoderPool, clip: Path, tmp_path: Path) -> None:
    reason, detail = reason_of(pool, tmp_path / "crash.mp4")
    assert reason is DropReason.DECODE_CRASH
    assert f"signal {signal.SIGSEGV.value}" in detail
    assert_decodes(pool, clip, tmp_path / "frames")


def test_a_fault_in_python_drops_the_video_and_names_itself(pool: DecoderPool, clip: Path, tmp_path: Path) -> None:
    reason, detail = reason_of(pool, tmp_path / "bug.mp4")
    assert reason is DropReason.DECODE_CRASH
    assert "RuntimeError: a fault of ours" in detail
    assert_decodes(pool, clip, tmp_path / "frames")


def test_a_broken_video_leaves_the_process_alive(pool: DecoderPool, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.mp4").touch()
    assert reason_of(pool, tmp_path / "empty.mp4")[0] is DropReason.VIDEO_BROKEN
    before = psutil.Process().children()
    assert_decodes(pool, clip, tmp_path / "frames")
    assert psutil.Process().children() == before


def test_closing_ends_a_busy_process_and_its_caller_gets_a_drop(pool: DecoderPool, tmp_path: Path) -> None:
    outcome: list[BaseException] = []
    others = set(psutil.Process().children())  # of tests that ran in this process before

    def ask() -> None:
        try:
            pool.decode_to(tmp_path / "out", video(tmp_path / "hang.mp4"), SAMPLING, "raw")
        except (QuestionDropped, VideorlError) as error:
            outcome.append(error)

    caller = threading.Thread(target=ask)
    caller.start()
    while not (workers := set(psutil.Process().children()) - others):
        time.sleep(0.01)
    pool.close()
    caller.join(30)
    assert outcome
    assert not psutil.wait_procs(workers, timeout=10)[1]


def test_a_worker_imports_no_torch() -> None:
    heavy = "import sys, videorl.data.worker; print({'torch', 'transformers', 'ray', 'pyarrow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True).stdout.strip() == "set()"


@pytest.mark.parametrize("name", ["good", "hang"])
def test_workers_end_with_a_parent_that_is_killed(clip: Path, tmp_path: Path, name: str) -> None:
    """Idle ones at once, busy ones too, although other processes may hold the parent's pipe open."""
    script = f"""
import os, sys
from pathlib import Path
from videorl.data.pool import DecoderPool
from videorl.types import FrameSampling, Media
pool = DecoderPool(1, 60.0, command={MISBEHAVING!r})
pool.decode_to(Path({str(tmp_path / "first")!r}), Media("video", {str(clip)!r}), FrameSampling(), "raw")
other = os.fork()
if other == 0:
    os.execvp("sleep", ["sleep", "20"])  # without the pipe: descriptors are not inherited
print(other, flush=True)
again = Media("video", {str(clip.with_stem(name))!r})
pool.decode_to(Path({str(tmp_path / "second")!r}), again, FrameSampling(), "raw")
sys.stdin.read()
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    other = int(parent.stdout.readline())
    children = psutil.Process(parent.pid).children()
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    workers = [child for child in children if child.pid != other]
    assert len(workers) == 1
    gone, alive = psutil.wait_procs(workers, timeout=20)
    for child in set(children) - set(workers):
        child.kill()
    assert gone
    assert not alive


def test_frames_that_cannot_be_written_are_no_fault_of_the_video(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip.mp4", even_times(8, 4.0))
    pool = DecoderPool(1, timeout=60.0)
    try:
        with pytest.raises(VideorlError, match="frames cannot be written") as fault:
            pool.decode_to(tmp_path / "no folder" / "frames", video(clip), FrameSampling(), "raw")
        assert not isinstance(fault.value, QuestionDropped)
    finally:
        pool.close()


def test_a_closed_pool_starts_no_process(pool: DecoderPool, clip: Path, tmp_path: Path) -> None:
    pool.close()
    with pytest.raises(VideorlError, match="the decoder pool is closed"):
        pool.decode_to(tmp_path / "out", video(clip), SAMPLING, "raw")
