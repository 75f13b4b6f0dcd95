"""torchcodec's pictures beside PyAV's, to the bit; and what is said where it does not load."""

import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import av
import numpy as np
import pytest
from av.video.stream import VideoStream

from builders_data import CONTAINERS, even_times, number_of, uneven_times, video, write_clip
from videorl.config.schema import DataConfig
from videorl.data.codecs import read_frames
from videorl.data.decoding import decode
from videorl.data.pool import WORKER, DecoderPool
from videorl.data.store import FrameStore, store_root
from videorl.data.torchcodec_pictures import missing, read_pictures, require_torchcodec
from videorl.errors import QuestionDropped, UserError
from videorl.types import Frames, FrameSampling, Media

SAMPLING = FrameSampling(fps=4.0, max_frames=24)
AT_TWENTY, UNEVEN = even_times(100, 20), uneven_times(60)
LACKING = missing()
loads = pytest.mark.skipif(LACKING is not None, reason=str(LACKING))


def both(media: Media, sampling: FrameSampling = SAMPLING) -> tuple[Frames, Frames]:
    return decode(media, sampling), decode(media, sampling, reader=read_pictures)


def assert_same(media: Media, sampling: FrameSampling = SAMPLING, refused: str | None = None) -> Frames:
    """By torchcodec itself, unless it is `refused`: then a warning says so."""
    pyav, torchcodec = both(media, sampling)
    np.testing.assert_array_equal(torchcodec.indices, pyav.indices)
    np.testing.assert_array_equal(torchcodec.timestamps, pyav.timestamps)
    np.testing.assert_array_equal(torchcodec.pixels, pyav.pixels)
    assert pyav.warnings == ()
    assert torchcodec.warnings == (() if refused is None else (f"{media.path}: decoded by PyAV: {refused}",))
    assert [number_of(picture) for picture in torchcodec.pixels] == torchcodec.indices.tolist()
    return torchcodec


def noise(path: Path, pixel_format: str, codec: str = "libx264") -> Path:
    """Eight frames of noise, whose sides are no whole blocks."""
    pictures = np.random.default_rng(3).integers(0, 255, (8, 100, 130, 3), np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=4)
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = 130, 100, pixel_format
        for picture in pictures:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


@loads
@pytest.mark.parametrize(("container", "codec", "muxer"), CONTAINERS)
@pytest.mark.parametrize("times", [AT_TWENTY, UNEVEN], ids=["constant", "variable"])
def test_frames_times_and_pixels_are_pyavs(
    tmp_path: Path, container: str, codec: str, muxer: dict[str, str], times: list[float]
) -> None:
    if container == "avi" and times is UNEVEN:
        pytest.skip("avi holds a rate, no times")
    path = write_clip(tmp_path / f"clip.{container}", times, codec, muxer=muxer, size=(180, 320))
    names = {"libx265": "hevc", "libvpx": "vp8", "libvpx-vp9": "vp9", "libsvtav1": "av1", "mpeg4": "mpeg4"}
    silent = names.get(codec)
    refused = f"torchcodec is not known to tell where {silent} is damaged" if silent else None
    assert_same(video(path), refused=refused)
    assert_same(video(path, start=1.0, end=2.5), refused=refused)


@loads
@pytest.mark.parametrize("turned", [1, 2, 3])
def test_rotation_is_applied_alike(tmp_path: Path, turned: int) -> None:
    path = write_clip(tmp_path / "turned.mp4", AT_TWENTY, turned=turned, size=(180, 320))
    assert assert_same(video(path)).pixels.shape[1:3] == (192, 320)


@loads
@pytest.mark.parametrize("gop", [1, 12, 300])
def test_seeking_finds_the_same_frames(tmp_path: Path, gop: int) -> None:
    path = write_clip(tmp_path / "gop.mp4", even_times(400, 25), gop=gop)
    assert_same(video(path), FrameSampling(max_frames=6))
    assert_same(video(path, start=9.0), FrameSampling(max_frames=6))


@loads
@pytest.mark.parametrize(("container", "codec"), [("mp4", "libx264"), ("mkv", "libx264"), ("avi", "libx264")])
@pytest.mark.parametrize("count", [1, 3])
def test_very_short_clips_are_the_same(tmp_path: Path, container: str, codec: str, count: int) -> None:
    assert_same(video(write_clip(tmp_path / f"short.{container}", even_times(count, 10), codec)))


@loads
def test_sound_beside_the_picture_changes_nothing(tmp_path: Path) -> None:
    assert_same(video(write_clip(tmp_path / "sound.mp4", AT_TWENTY, audio=True)))


@loads
@pytest.mark.parametrize("pixel_format", ["yuv444p", "yuv420p10le", "gray"])
def test_other_pixel_formats_are_the_same(tmp_path: Path, pixel_format: str) -> None:
    path = noise(tmp_path / "clip.mp4", pixel_format)
    pyav, torchcodec = both(video(path))
    np.testing.assert_array_equal(torchcodec.pixels, pyav.pixels)
    assert torchcodec.warnings == ()


@loads
def test_a_first_picture_that_is_not_pyavs_leaves_the_file_to_pyav(tmp_path: Path) -> None:
    path = noise(tmp_path / "clip.mp4", "rgb24", "libx264rgb")  # whose planes come in another order
    pyav, torchcodec = both(video(path))
    np.testing.assert_array_equal(torchcodec.pixels, pyav.pixels)
    assert torchcodec.warnings == (f"{path}: decoded by PyAV: torchcodec refuses: its first picture is not PyAV's",)


@loads
@pytest.mark.parametrize(("container", "codec"), [("mp4", "libx264"), ("mkv", "libx264")])
@pytest.mark.parametrize("bits", [1, 40])
@pytest.mark.parametrize("seed", range(3))
def test_damage_gives_pyavs_frames(tmp_path: Path, container: str, codec: str, bits: int, seed: int) -> None:
    path = write_clip(tmp_path / f"scratched.{container}", even_times(120, 24), codec, gop=24)
    data, chance = bytearray(path.read_bytes()), random.Random(seed)
    begin, end = (data.index(b"mdat"), data.index(b"moov")) if container == "mp4" else (len(data) // 8, len(data))
    for _ in range(bits):
        data[chance.randrange(begin + 1000, end)] ^= 1 << chance.randrange(8)  # behind the first picture
    path.write_bytes(data)
    pyav, torchcodec = both(video(path))
    np.testing.assert_array_equal(torchcodec.indices, pyav.indices)
    np.testing.assert_array_equal(torchcodec.timestamps, pyav.timestamps)
    np.testing.assert_array_equal(torchcodec.pixels, pyav.pixels)
    assert set(pyav.warnings) <= set(torchcodec.warnings)


@loads
@pytest.mark.parametrize("content", [b"", b"this is a web page, not a video" * 50])
def test_what_is_no_video_has_the_same_reason(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "not.mp4"
    path.write_bytes(content)
    drops = []
    for reader in (None, read_pictures):
        with pytest.raises(QuestionDropped) as dropped:
            decode(video(path), SAMPLING, reader=reader)
        drops.append(dropped.value.drop)
    assert drops[0] == drops[1]


@loads
def test_a_store_filled_by_torchcodec_serves_pyav(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", AT_TWENTY, size=(180, 320))
    ours, theirs = (DataConfig(train=(path,), decoder=name) for name in ("torchcodec", "pyav"))
    filling = FrameStore.from_config(ours, tmp_path / "store")
    reading = FrameStore.from_config(theirs, tmp_path / "store")
    try:
        ref = filling.reference(video(path))
        frames = filling.load(ref)
        assert reading.reference(video(path)) == ref
        assert ref in reading
        np.testing.assert_array_equal(frames.pixels, decode(video(path), ours.frame_sampling).pixels)
    finally:
        filling.close()
        reading.close()


# ── where it does not load ──────────────────────────────────────────────────────────────────────────────────────────


def stand_in(**holds: object) -> ModuleType:
    module = ModuleType("torchcodec")
    module.__dict__.update(holds)
    return module


OLD = stand_in(__version__="0.9.1", ffmpeg_major_version=5, decoders=SimpleNamespace(VideoDecoder=object))
WITHOUT_FFMPEG = stand_in(__version__="0.17.0", ffmpeg_major_version=None, decoders=SimpleNamespace(Demuxer=object))


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (None, "torchcodec is not installed"),
        (OLD, "torchcodec 0.9.1 is older than 0.17"),
        (WITHOUT_FFMPEG, "torchcodec finds no shared libraries of FFmpeg"),
    ],
)
def test_what_is_lacking_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: ModuleType | None, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "torchcodec", module)
    with pytest.raises(UserError) as fault:
        FrameStore.from_config(DataConfig(train=(tmp_path,), decoder="torchcodec"), tmp_path / "store")
    message = str(fault.value)
    assert message.startswith('data.decoder = "torchcodec": ')
    assert said in message
    assert 'set data.decoder = "pyav"' in message
    assert "\n" not in message
    assert not (tmp_path / "store").exists()


def test_a_library_that_fails_to_load_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "torchcodec").mkdir()
    (tmp_path / "torchcodec" / "__init__.py").write_text('raise RuntimeError("no symbol\\nin libtorch.so")')
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchcodec"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UserError, match=r"does not load: no symbol in libtorch\.so; it takes torchcodec"):
        require_torchcodec()


def test_the_default_asks_for_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torchcodec", None)
    FrameStore.from_config(DataConfig(train=(tmp_path,)), tmp_path / "store").close()
    assert store_root(tmp_path / "store").is_dir()


def test_the_workers_pyav_is_the_one_named(tmp_path: Path) -> None:
    path = write_clip(tmp_path / "clip.mp4", AT_TWENTY)
    pool = DecoderPool(1, timeout=60.0, command=(*WORKER, "pyav"))
    try:
        pool.decode_to(tmp_path / "frames", video(path), SAMPLING, "raw")
        assert (read_frames(tmp_path / "frames").pixels == decode(video(path), SAMPLING).pixels).all()
    finally:
        pool.close()
