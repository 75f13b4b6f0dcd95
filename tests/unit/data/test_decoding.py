"""Every clip carries its frame numbers as a pattern and is written at known times; both are read back here."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builders_data import CONTAINERS, board, even_times, number_of, set_rotation, uneven_times, video, write_clip
from videorl.data.decoding import decode, probe
from videorl.data.sampling import frame_count, frame_indices
from videorl.errors import QuestionDropped
from videorl.types import DropReason, Frames, FrameSampling, Media

SAMPLING = FrameSampling(fps=4.0, max_frames=24)
AT_TWENTY, UNEVEN = even_times(100, 20), uneven_times(60)


def numbers(frames: Frames) -> list[int | None]:
    return [number_of(picture) for picture in frames.pixels]


def assert_true_frames(frames: Frames, times: list[float]) -> None:
    """Upright, the frames that the indices name, at the times written at encoding."""
    assert numbers(frames) == frames.indices.tolist()
    np.testing.assert_allclose(frames.timestamps, np.array(times)[frames.indices], atol=5e-4)
    assert len(frames.pixels) % 2 == 0
    assert not frames.warnings


def reason_of(path: Path, sampling: FrameSampling = SAMPLING, **fields: float) -> tuple[DropReason, str]:
    with pytest.raises(QuestionDropped) as dropped:
        decode(video(path, **fields), sampling)
    return dropped.value.drop.reason, dropped.value.drop.detail


@pytest.mark.parametrize(("container", "codec", "muxer"), CONTAINERS)
@pytest.mark.parametrize("times", [AT_TWENTY, UNEVEN], ids=["constant", "variable"])
def test_frames_and_times_are_those_written(
    tmp_path: Path, container: str, codec: str, muxer: dict[str, str], times: list[float]
) -> None:
    if container == "avi" and times is UNEVEN:
        pytest.skip("avi holds a rate, no times")
    path = write_clip(tmp_path / f"clip.{container}", times, codec, muxer=muxer)
    frames = decode(video(path), SAMPLING)
    last_gap = float(np.median(np.diff(times)))
    count = frame_count(times[-1] + last_gap, len(times), SAMPLING)
    assert frames.indices.tolist() == frame_indices(len(times), count).tolist()
    assert_true_frames(frames, times)


@pytest.mark.parametrize("turned", [1, 2, 3])
@pytest.mark.parametrize("container", ["mp4", "mov"])
def test_rotation_is_applied(tmp_path: Path, container: str, turned: int) -> None:
    path = write_clip(tmp_path / f"turned.{container}", AT_TWENTY, turned=turned)
    frames = decode(video(path), SAMPLING)
    assert_true_frames(frames, AT_TWENTY)
    assert frames.pixels.shape[1:3] == (96, 128)


def test_a_minute_at_thirty_frames_a_second_gives_the_capped_frames_at_their_burnt_in_times(tmp_path: Path) -> None:
    times = even_times(1800, 30)
    path = write_clip(tmp_path / "minute.mp4", times, gop=250)
    frames = decode(video(path), FrameSampling())
    assert len(frames.pixels) == 24
    assert_true_frames(frames, times)


@pytest.mark.parametrize("gop", [1, 12, 300])
def test_seeking_finds_the_same_frames_whatever_the_distance_of_keyframes(tmp_path: Path, gop: int) -> None:
    times = even_times(400, 25)
    path = write_clip(tmp_path / "gop.mp4", times, gop=gop)
    assert_true_frames(decode(video(path), FrameSampling(max_frames=6)), times)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("container", ["mp4", "webm", "avi"])
def test_a_clip_of_one_to_three_frames_gives_two(tmp_path: Path, container: str, count: int) -> None:
    codec = {"mp4": "libx264", "webm": "libvpx-vp9", "avi": "mpeg4"}[container]
    path = write_clip(tmp_path / f"short.{container}", even_times(count, 10), codec)
    frames = decode(video(path), SAMPLING)
    assert numbers(frames) == frames.indices.tolist() == [0, count - 1]


def test_a_clip_of_the_video_gives_frames_inside_it_at_the_times_of_the_source(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "long.mp4", AT_TWENTY)
    frames = decode(video(path, start=1.5, end=3.0), SAMPLING)
    assert frames.timestamps[0] == pytest.approx(1.5)
    assert frames.timestamps[-1] == pytest.approx(2.95)
    assert len(frames.pixels) == 6
    assert_true_frames(frames, AT_TWENTY)


@pytest.mark.parametrize(("container", "codec", "muxer"), CONTAINERS)
def test_a_clip_gives_its_own_frames_whatever_the_codec(
    tmp_path: Path, container: str, codec: str, muxer: dict[str, str]
) -> None:
    path = write_clip(tmp_path / f"clip.{container}", AT_TWENTY, codec, muxer=muxer)
    frames = decode(video(path, start=1.0, end=2.5), SAMPLING)
    assert frames.indices.tolist() == (20 + frame_indices(30, 6)).tolist()
    assert_true_frames(frames, AT_TWENTY)


def test_a_clip_outside_the_video_is_dropped_with_its_length(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "five.mp4", AT_TWENTY)
    reason, detail = reason_of(path, start=7.0, end=9.0)
    assert reason is DropReason.VIDEO_BROKEN
    assert "lasts 5.0 s" in detail


def test_sound_beside_the_picture_does_not_shift_times(tmp_path: Path) -> None:
    for name in ("sound.mp4", "sound.mkv"):
        path = write_clip(tmp_path / name, AT_TWENTY, audio=True)
        assert_true_frames(decode(video(path), SAMPLING), AT_TWENTY)


def test_frames_are_resized_to_multiples_of_32_within_the_cap(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "large.mp4", AT_TWENTY, size=(360, 640))
    frames = decode(video(path), FrameSampling(max_pixels=20_000))
    assert frames.pixels.shape[1:] == (96, 160, 3)  # the reference resize of 360 x 640
    assert_true_frames(frames, AT_TWENTY)


def test_more_threads_give_the_same_frames(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "threads.mp4", AT_TWENTY)
    one, many = decode(video(path), SAMPLING), decode(video(path), SAMPLING, threads=4)
    np.testing.assert_array_equal(one.pixels, many.pixels)


@pytest.mark.parametrize(("container", "codec", "muxer"), CONTAINERS[:2] + CONTAINERS[-2:])
def test_a_probe_knows_what_decoding_gives(tmp_path: Path, container: str, codec: str, muxer: dict[str, str]) -> None:
    path = write_clip(tmp_path / f"clip.{container}", AT_TWENTY, codec, muxer=muxer, size=(180, 320))
    facts, frames = probe(video(path, start=1.0), SAMPLING), decode(video(path, start=1.0), SAMPLING)
    assert (facts.frames, facts.height, facts.width) == frames.pixels.shape[:3]
    assert list(facts.timestamps) == frames.timestamps.tolist()
    assert facts.total == 100
    assert facts.duration == pytest.approx(5.0)


# ── broken files ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("container", "codec"), [("mp4", "libx264"), ("mkv", "libx264"), ("webm", "libvpx-vp9")])
def test_a_broken_stretch_keeps_good_frames_and_says_so(tmp_path: Path, container: str, codec: str) -> None:
    times = even_times(240, 24)
    path = write_clip(tmp_path / f"scratched.{container}", times, codec, gop=12)
    data = bytearray(path.read_bytes())
    start, end = int(len(data) * 0.4), int(len(data) * 0.6)
    data[start:end] = random.Random(1).randbytes(end - start)
    path.write_bytes(data)
    frames = decode(video(path), SAMPLING)
    # Nothing smeared, and no picture at another's time. (mkv and webm lose the damaged frames from their count.)
    assert numbers(frames) == [round(t * 24) for t in frames.timestamps]
    assert 8 <= len(frames.pixels) <= 24
    assert frames.indices[0] == 0
    assert numbers(frames)[-1] == 239 or codec == "libvpx-vp9"  # which does not find its way again
    assert any("could not be decoded" in w or "is damaged" in w or "ends after" in w for w in frames.warnings)


@pytest.mark.parametrize("container", ["mkv", "webm"])
def test_a_file_cut_off_in_the_middle_gives_the_frames_before_it(tmp_path: Path, container: str) -> None:
    times = even_times(200, 20)
    path = write_clip(tmp_path / f"cut.{container}", times, "libvpx-vp9" if container == "webm" else "libx264")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    frames = decode(video(path), SAMPLING)
    assert numbers(frames) == frames.indices.tolist()
    assert 0.5 < frames.timestamps[-1] < 9


def test_a_truncated_mp4_is_dropped_with_its_reason(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "cut.mp4", AT_TWENTY)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    reason, detail = reason_of(path)
    assert reason is DropReason.VIDEO_BROKEN
    assert str(path) in detail


@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"this is a web page, not a video" * 50])
def test_what_is_no_video_is_dropped_with_its_reason(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "not.mp4"
    path.write_bytes(content)
    assert reason_of(path)[0] is DropReason.VIDEO_BROKEN


def test_sound_without_picture_is_dropped_with_its_reason(tmp_path: Path) -> None:
    import av

    from builders_data import write_silence

    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w") as container:
        write_silence(container, container.add_stream("aac", rate=48_000), 1.0)
    reason, detail = reason_of(path)
    assert reason is DropReason.VIDEO_BROKEN
    assert "no picture track" in detail


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_folder_of_frames_is_a_video_in_natural_order(tmp_path: Path) -> None:
    for i in range(12):
        Image.fromarray(board(i)).save(tmp_path / f"frame{i}.png")
    frames = decode(video(tmp_path), FrameSampling(fps=2.0, max_frames=6))
    assert numbers(frames) == frames.indices.tolist() == frame_indices(12, 6).tolist()
    np.testing.assert_allclose(frames.timestamps, frames.indices / 2.0)


def test_a_list_of_frames_is_a_video_in_its_own_order(tmp_path: Path) -> None:
    for i in range(4):
        Image.fromarray(board(i)).save(tmp_path / f"{i}.jpg", quality=95)
    files = tuple(str(tmp_path / f"{i}.jpg") for i in (3, 1, 2, 0))
    assert numbers(decode(video(tmp_path, frames=files), SAMPLING)) == [3, 1, 2, 0]


def test_an_unreadable_picture_in_a_folder_is_dropped_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(b"not a picture")
    reason, detail = reason_of(tmp_path)
    assert reason is DropReason.VIDEO_BROKEN
    assert "0.png" in detail


def test_rotation_of_an_untouched_file_is_none(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "plain.mp4", AT_TWENTY)
    set_rotation(path, 0)
    assert_true_frames(decode(video(path), SAMPLING), AT_TWENTY)


def test_a_playlist_under_a_videos_name_opens_nothing_else(tmp_path: Path) -> None:
    write_clip(tmp_path / "secret.mp4", AT_TWENTY)
    (tmp_path / "list.mp4").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nsecret.mp4\n#EXT-X-ENDLIST\n")
    (tmp_path / "concat.mp4").write_text("ffconcat version 1.0\nfile secret.mp4\n")
    for name in ("list.mp4", "concat.mp4"):
        reason, detail = reason_of(tmp_path / name)
        assert reason is DropReason.VIDEO_BROKEN
        assert "not a video that can be opened" in detail


@pytest.mark.parametrize("read", [decode, probe])
def test_a_pipe_in_the_place_of_a_video_keeps_nobody_waiting(
    read: Callable[[Media, FrameSampling], object], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    with pytest.raises(QuestionDropped, match=r"pipe\.mp4: not a file"):
        read(video(tmp_path / "pipe.mp4"), FrameSampling())
