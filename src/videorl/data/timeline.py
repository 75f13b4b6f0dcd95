"""When every frame of a video is shown, read from its packets without decoding any."""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import av
import av.logging
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.video.stream import VideoStream
from jaxtyping import Bool, Float64, Int64

# Formats whose packets carry no presentation times, only an order of decoding.
_WITHOUT_TIMES = frozenset({"avi"})
# Formats whose clock starts anywhere.
_FREE_CLOCK = frozenset({"mpegts", "mpeg"})
_SEEK_BEYOND = 16  # frames: decoding through fewer is cheaper than a seek


@dataclass(slots=True, frozen=True)
class Timeline:
    """The frames of a stream in the order in which they are shown. A frame's place in it is its index."""

    pts: Int64[np.ndarray, "N"]  # in the stream's time base, ascending; meaningless where `by_order`
    times: Float64[np.ndarray, "N"]  # seconds from the start of the file
    keyframes: Bool[np.ndarray, "N"]
    by_order: bool  # frames can be told apart only by counting them as they are decoded
    warnings: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.times)

    @property
    def end(self) -> float:
        """When the last frame stops being shown: it lasts as long as the others do in the middle."""
        gaps = np.diff(self.times)
        return float(self.times[-1] + (np.median(gaps) if len(gaps) else 0.0))

    def runs(self, wanted: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """Wanted frames that are cheapest decoded in one go, each run with the keyframe that it begins at."""
        keys = [0, *(int(k) for k in np.flatnonzero(self.keyframes) if k)]
        key, run = 0, []
        for index in wanted:
            nearest = keys[bisect.bisect_right(keys, index) - 1]
            if run and nearest > run[-1] + _SEEK_BEYOND:
                yield key, run
                key, run = nearest, []
            elif not run:
                key = nearest
            run.append(index)
        if run:
            yield key, run


def read_timeline(container: InputContainer, stream: VideoStream) -> Timeline:
    """Demux the whole stream. Empty where no packet of it can be read."""
    packets: list[tuple[int | None, int | None, bool]] = []
    warnings: list[str] = []
    with _complaints() as complaints:
        try:
            for packet in container.demux(stream):
                if packet.size and not packet.is_discard and _is_shown(stream, packet):
                    packets.append((packet.pts, packet.dts, packet.is_keyframe))
        except (FFmpegError, OSError) as error:
            warnings.append(f"the file cannot be read beyond {len(packets)} frames: {error.strerror or error}")
    if complaints:  # some containers skip what is damaged without an error
        warnings.append(f"the file is damaged, some frames may be missing: {complaints[0][2].strip()}")
    formats = set(container.format.name.split(","))
    shown = [pts for pts, _, _ in packets if pts is not None]
    by_order = bool(formats & _WITHOUT_TIMES) or len(set(shown)) < len(packets)
    if by_order:
        return _by_order(packets, stream, warnings)
    order = np.argsort(np.array(shown, np.int64), kind="stable")
    pts = np.array(shown, np.int64)[order]
    origin = _origin(pts, [dts for _, dts, _ in packets if dts is not None], bool(formats & _FREE_CLOCK))
    times = (pts - origin) * float(stream.time_base or 0)
    warnings.extend(_ends_early(times, container, stream))
    return Timeline(pts, times, np.array([key for _, _, key in packets], bool)[order], False, tuple(warnings))


def _by_order(packets: list[tuple[int | None, int | None, bool]], stream: VideoStream, warnings: list[str]) -> Timeline:
    """The k-th frame that comes out of the decoder is shown at the k-th decoding time, or at k / rate."""
    count = len(packets)
    stamps = sorted(dts for _, dts, _ in packets if dts is not None)
    if len(set(stamps)) == count and count:
        times = (np.array(stamps, np.int64) - stamps[0]) * float(stream.time_base or 0)
    else:
        times = np.arange(count) / float(stream.average_rate or stream.guessed_rate or 25)
    return Timeline(np.arange(count), times.astype(np.float64), np.zeros(count, bool), True, tuple(warnings))


def _origin(pts: Int64[np.ndarray, "N"], dts: list[int], free_clock: bool) -> int:
    """What the file's clock shows at its start.

    A muxer that writes no edit list (fragmented mp4) delays all frames, so that the first decoding time is not
    negative: then that is 0 and the first frame's delay is none of the video's.
    """
    if not len(pts):
        return 0
    delayed = bool(dts) and min(dts) == 0 < pts[0]
    return int(pts[0]) if free_clock or delayed else 0


def _is_shown(stream: VideoStream, packet: Packet) -> bool:
    """VP8 keeps reference frames that are never shown in packets of their own; bit 4 of the first byte tells."""
    return stream.codec_context.name != "vp8" or bool(bytes(packet)[0] & 0x10)


def _ends_early(times: Float64[np.ndarray, "N"], container: InputContainer, stream: VideoStream) -> list[str]:
    promised = (container.duration or 0) / av.time_base
    if stream.duration and stream.time_base:
        promised = float(stream.duration * stream.time_base)
    if len(times) and promised > 2 and times[-1] < 0.9 * promised:
        return [f"the file ends after {times[-1]:.1f} of {promised:.1f} s"]
    return []


@contextlib.contextmanager
def _complaints() -> Iterator[list[tuple[int, str, str]]]:
    """What the demuxer logs as an error meanwhile: (level, name, message)."""
    before = av.logging.get_level()
    av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)  # the last file may have had the same to complain of
    try:
        with av.logging.Capture() as logged:
            yield logged
    finally:
        av.logging.set_level(before)
