"""The frame store: found again by content, the same for every reader, whole or not there, bounded."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from builders_data import even_times, number_of, uneven_times, video, write_clip
from videorl.data.codecs import Codec
from videorl.data.decoding import decode
from videorl.data.pool import DecoderPool
from videorl.data.store import FrameStore, store_root
from videorl.data.upkeep import prune, usage, verify
from videorl.errors import QuestionDropped, UserError
from videorl.types import DropReason, FrameSampling

SAMPLING = FrameSampling(fps=4.0, max_frames=8)


class CountingPool(DecoderPool):
    """The real pool; counts how often it was asked."""

    decoded = 0

    def decode_to(self, *job: object) -> None:
        self.decoded += 1
        super().decode_to(*job)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def pool() -> Iterator[CountingPool]:
    pool = CountingPool(2, timeout=60.0)
    yield pool
    pool.close()


@pytest.fixture
def store(pool: CountingPool, tmp_path: Path) -> FrameStore:
    pool.decoded = 0
    return FrameStore(tmp_path / "store", SAMPLING, pool)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_clip(tmp_path / "clip.mp4", uneven_times(40))


def test_frames_are_decoded_once_and_mapped_afterwards(store: FrameStore, pool: CountingPool, clip: Path) -> None:
    ref = store.reference(video(clip))
    assert ref not in store
    first, second = store.load(ref), store.load(ref)
    assert ref in store
    assert pool.decoded == 1
    assert isinstance(second.pixels, np.memmap)
    assert not second.pixels.flags.writeable
    assert [number_of(p) for p in first.pixels] == first.indices.tolist()
    expected = decode(video(clip), SAMPLING)
    np.testing.assert_array_equal(first.pixels, expected.pixels)
    np.testing.assert_array_equal(first.timestamps, expected.timestamps)


def test_everybody_may_read_what_one_has_decoded(store: FrameStore, clip: Path, tmp_path: Path) -> None:
    store.load(store.reference(video(clip)))
    (file,) = (path for path in (tmp_path / "store").rglob("*") if path.is_file() and path.suffix == ".safetensors")
    assert file.stat().st_mode & 0o444 == 0o444


@pytest.mark.parametrize("codec", ["raw", "lossless", "jpeg"])
def test_the_first_reader_sees_the_pixels_of_every_later_one(
    pool: CountingPool, clip: Path, tmp_path: Path, codec: Codec
) -> None:
    ref = (one := FrameStore(tmp_path / "s", SAMPLING, pool, codec)).reference(video(clip))
    first = one.load(ref)
    later = FrameStore(tmp_path / "s", SAMPLING, pool, codec).load(ref)
    np.testing.assert_array_equal(first.pixels, later.pixels)
    exact = decode(video(clip), SAMPLING).pixels
    if codec == "jpeg":
        assert np.abs(first.pixels.astype(int) - exact).mean() < 3
    else:
        np.testing.assert_array_equal(first.pixels, exact)


def test_lossless_shares_raw_frames_and_jpeg_does_not(pool: CountingPool, clip: Path, tmp_path: Path) -> None:
    keys = {
        c: FrameStore(tmp_path / "s", SAMPLING, pool, c).reference(video(clip)).key for c in ("raw", "lossless", "jpeg")
    }
    assert keys["raw"] == keys["lossless"] != keys["jpeg"]


def test_the_key_follows_content_clip_and_sampling_but_not_the_name(
    store: FrameStore, pool: CountingPool, clip: Path, tmp_path: Path
) -> None:
    key = store.reference(video(clip)).key
    copy = Path(shutil.copy(clip, tmp_path / "other name.mp4"))
    assert store.reference(video(copy)).key == key
    assert store.reference(video(clip, start=0.5)).key != key
    assert store.reference(video(clip, end=2.0)).key != key
    assert store.reference(video(clip, limits={"max_frames": 4})).key != key
    assert FrameStore(tmp_path / "store", FrameSampling(), pool).reference(video(clip)).key != key
    write_clip(copy, uneven_times(41))
    assert store.reference(video(copy)).key != key


def test_a_file_replaced_under_the_same_name_size_and_time_has_another_key(store: FrameStore, tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    path.write_bytes(b"a" * 1000)
    os.utime(path, (1, 1))
    before = store.reference(video(path)).key
    swapped = tmp_path / "swap"
    swapped.write_bytes(b"b" * 1000)
    os.utime(swapped, (1, 1))
    swapped.replace(path)
    assert store.reference(video(path)).key != before


def test_a_row_may_set_its_own_limits(store: FrameStore, clip: Path) -> None:
    ref = store.reference(video(clip, limits={"max_frames": 4.0, "max_pixels": 4096.0}))
    assert store.load(ref).pixels.shape == (4, 32, 64, 3)


def test_a_missing_file_is_dropped_with_its_path(store: FrameStore, tmp_path: Path) -> None:
    for path in (tmp_path / "none.mp4", tmp_path / "no folder" / "v.mp4"):
        with pytest.raises(QuestionDropped) as dropped:
            store.reference(video(path))
        assert dropped.value.drop.reason is DropReason.VIDEO_MISSING
        assert str(path) in dropped.value.drop.detail


def test_a_pipe_in_place_of_a_video_is_refused_at_once(store: FrameStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    with pytest.raises(QuestionDropped):
        store.reference(video(tmp_path / "pipe.mp4"))


def test_many_threads_that_want_the_same_frames_decode_once(store: FrameStore, pool: CountingPool, clip: Path) -> None:
    ref, seen = store.reference(video(clip)), []
    threads = [threading.Thread(target=lambda: seen.append(store.load(ref).pixels.sum())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(seen) == 8
    assert len(set(seen)) == 1
    assert pool.decoded == 1


def test_processes_that_ask_for_the_same_frames_at_once_end_with_one_file(clip: Path, tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from videorl.data.pool import DecoderPool
from videorl.data.store import FrameStore
from videorl.types import FrameSampling, Media
pool = DecoderPool(1, 60.0)
store = FrameStore(Path({str(tmp_path / "shared")!r}), FrameSampling(), pool)
print("ready", flush=True)
input()
print(int(store.load(store.reference(Media("video", {str(clip)!r}))).pixels.sum()))
pool.close()
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "-c", script], **pipes) for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    sums = {process.communicate(timeout=60)[0] for process in processes}
    assert len(sums) == 1
    assert usage(store_root(tmp_path / "shared")).files == 1
    assert not list(store_root(tmp_path / "shared").glob("incoming/*"))


def test_a_damaged_file_is_found_by_verify_and_made_again_on_load(
    store: FrameStore, pool: CountingPool, clip: Path, tmp_path: Path
) -> None:
    ref = store.reference(video(clip))
    good = store.load(ref).pixels.copy()
    (file,) = store_root(tmp_path / "store").glob("frames/*/*")
    file.write_bytes(file.read_bytes()[:5000])
    ((path, wrong),) = verify(store_root(tmp_path / "store"))
    assert path == file
    assert wrong is not None
    np.testing.assert_array_equal(store.load(ref).pixels, good)
    assert pool.decoded == 2


def test_what_is_no_file_in_a_store_is_damage_and_stops_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "frames" / "ab"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.safetensors")
    (folder / "link.safetensors").symlink_to("link.safetensors")
    assert sorted(wrong or "" for _, wrong in verify(tmp_path)) == [
        f"{folder}/link.safetensors: not a file",
        f"{folder}/pipe.safetensors: not a file",
    ]
    assert usage(tmp_path).files == prune(tmp_path, 0).files == 0


def test_the_least_recently_used_frames_make_room(pool: CountingPool, tmp_path: Path) -> None:
    size = 8 * 96 * 128 * 3
    store = FrameStore(tmp_path / "store", SAMPLING, pool, cap_gb=3.5 * size / 1e9)
    root = store_root(tmp_path / "store")
    refs = []
    for i in range(4):
        refs.append(store.reference(video(write_clip(tmp_path / f"{i}.mp4", even_times(60 + i, 20)))))
        frames = store.load(refs[-1])
        (file,) = root.glob(f"frames/*/{refs[-1].key}*")
        os.utime(file, (1000 + i, 1000 + i))
        if i == 2:
            store.load(refs[0])  # used again: newer than 1 and 2
    assert usage(root).bytes <= 3.5 * size
    assert [ref in store for ref in refs] == [True, False, True, True]
    assert frames.pixels.shape == (8, 96, 128, 3)


def test_frames_stay_readable_after_they_were_evicted(store: FrameStore, clip: Path, tmp_path: Path) -> None:
    frames = store.load(store.reference(video(clip)))
    removed = prune(store_root(tmp_path / "store"), 0)
    assert removed.files == 1
    assert [number_of(p) for p in frames.pixels] == frames.indices.tolist()


def test_a_dropped_video_leaves_nothing_behind(store: FrameStore, tmp_path: Path) -> None:
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    with pytest.raises(QuestionDropped):
        store.load(store.reference(video(tmp_path / "broken.mp4")))
    assert usage(store_root(tmp_path / "store")).files == 0
    assert not list(store_root(tmp_path / "store").glob("incoming/*"))


def test_a_folder_that_cannot_be_made_is_the_users_fault(pool: CountingPool, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="frame store"):
        FrameStore(tmp_path / "file" / "store", SAMPLING, pool)
