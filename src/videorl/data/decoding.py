"""One medium → its sampled, resized, upright frames. Pure and blocking: `pool` runs it in processes that may be ended.

Only the frames that are wanted leave the decoder as pictures; where the next one lies behind a later keyframe, the
decoder seeks. A frame that cannot be decoded is replaced by the nearest one that can, and it is said.

PyAV opens every file, knows its times and chooses, resizes and turns the frames. Only decoding what was chosen may be
left to a `PictureReader`; where it refuses, PyAV decodes too.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import av
import av.logging
import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from jaxtyping import UInt8

from videorl.data.sampling import FRAMES_PER_PATCH, fit_size, frame_count, frame_indices
from videorl.data.stills import decode_stills, still_files
from videorl.data.timeline import Timeline, read_timeline
from videorl.errors import QuestionDropped
from videorl.types import Drop, DropReason, Frames, FrameSampling, Media

_CONTAINERS = "mov,matroska,avi,mpegts,mpeg,mpegvideo,m4v,h264,hevc,obu,ivf,flv,asf,ogg,mxf,nut,rm,wtv,gif"
_READ_ERRORS = (FFmpegError, OSError, ValueError)


@dataclass(slots=True, frozen=True)
class Facts:
    """What sampling a medium gives, known without its pictures."""

    frames: int  # sampled
    height: int  # of a sampled frame
    width: int
    timestamps: tuple[float, ...]  # of the sampled frames, in seconds
    total: int  # frames in the source
    codec: str
    duration: float  # seconds of the source
    warnings: tuple[str, ...] = ()


class ReaderRefused(Exception):
    """A reader cannot give all the pictures as PyAV would; the message says why."""


class PictureReader(Protocol):
    """Another decoder than PyAV for the pictures of a video."""

    def __call__(
        self,
        container: InputContainer,
        stream: VideoStream,
        timeline: Timeline,
        wanted: Sequence[int],
        threads: int,
        take: Callable[[int, VideoFrame], None],
    ) -> None:
        """Hand `take` every picture of `wanted` (ascending); a picture may change once `take` has returned.

        Args:
            container: opened by PyAV, nothing read from it.

        Raises:
            ReaderRefused: some cannot be had, or not for certain as PyAV would give them; none must be used.
        """
        ...


def decode(media: Media, sampling: FrameSampling, threads: int = 1, reader: PictureReader | None = None) -> Frames:
    """The frames of a video, a folder or list of pictures, or an image.

    Args:
        reader: decodes the pictures of videos; none: PyAV.

    Raises:
        QuestionDropped: VIDEO_BROKEN, where not one picture can be had, with a line for a person.
    """
    av.logging.set_level(av.logging.PANIC)
    try:
        files = still_files(media)
        frames = decode_stills(files, media, sampling) if files else _decode_video(media, sampling, threads, reader)
        return frames if media.shuffle is None else _shuffled(frames, media.shuffle)
    except _READ_ERRORS as error:
        raise _broken(media, getattr(error, "strerror", None) or str(error)) from None


def _shuffled(frames: Frames, seed: int) -> Frames:
    """The pictures in another order; times and indices stay."""
    order = np.random.default_rng(seed).permutation(len(frames.pixels))
    if (np.diff(order) == 1).all():
        order = order[::-1]
    return replace(frames, pixels=frames.pixels[order])


def probe(media: Media, sampling: FrameSampling) -> Facts:
    """What `decode` would give, without decoding more than one picture of a video.

    Raises:
        QuestionDropped: as `decode`.
    """
    av.logging.set_level(av.logging.PANIC)
    try:
        if files := still_files(media):
            frames = decode_stills(files, media, sampling)
            count, height, width, _ = frames.pixels.shape
            return Facts(count, height, width, tuple(frames.timestamps.tolist()), len(files), "pictures", 0.0)
        timeline, wanted, codec = _plan(media, sampling)
        found = _found(media, timeline, wanted[:1], sampling, threads=1)
        height, width = next(iter(found.pictures.values())).shape[:2]
        times = tuple(timeline.times[wanted].tolist())
        return Facts(len(wanted), height, width, times, len(timeline), codec, timeline.end, timeline.warnings)
    except _READ_ERRORS as error:
        raise _broken(media, getattr(error, "strerror", None) or str(error)) from None


def _decode_video(media: Media, sampling: FrameSampling, threads: int, reader: PictureReader | None) -> Frames:
    timeline, wanted, _ = _plan(media, sampling)
    if reader is None or timeline.warnings:  # what is known to be damaged is left to the decoder that says how
        return _assemble(media, timeline, _found(media, timeline, wanted, sampling, threads), wanted)
    found = _Found(sorted(set(wanted)), sampling)
    try:
        with _open(media) as container:
            reader(container, _picture_stream(container, media), timeline, found.wanted, threads, found.take)
    except ReaderRefused as refused:
        found = _found(media, timeline, wanted, sampling, threads)
        found.warnings.append(f"decoded by PyAV: {refused}")
    return _assemble(media, timeline, found, wanted)


def _plan(media: Media, sampling: FrameSampling) -> tuple[Timeline, list[int], str]:
    """All frames of the file, the indices of those that are wanted, and the codec's name."""
    with _open(media) as container:
        stream = _picture_stream(container, media)
        codec = stream.codec_context.name
        timeline = read_timeline(container, stream)
    if not len(timeline):
        raise _broken(media, "it holds no frames")
    first, last = _clip(timeline, media)
    end = min(timeline.end, media.end) if media.end is not None else timeline.end
    begin = max(float(timeline.times[first]), media.start or 0.0)
    total = last - first
    wanted = first + frame_indices(total, frame_count(end - begin, total, sampling))
    return timeline, [int(index) for index in wanted], codec


def _found(media: Media, timeline: Timeline, wanted: Sequence[int], sampling: FrameSampling, threads: int) -> _Found:
    for strict in (True, False):  # first refusing damaged pictures, then, if there is no other, taking them
        found = _Found(sorted(set(wanted)), sampling)
        _pick(media, timeline, found, strict, threads)
        if found.pictures:
            return found
    raise _broken(media, "none of its frames can be decoded")


def _clip(timeline: Timeline, media: Media) -> tuple[int, int]:
    start = 0.0 if media.start is None else media.start
    end = float("inf") if media.end is None else media.end
    first = bisect.bisect_left(timeline.times, start - 1e-6) if media.start is not None else 0
    last = bisect.bisect_left(timeline.times, end - 1e-6)
    if first >= last:
        raise _broken(media, f"no frame between {start:g} and {end:g} s; it lasts {timeline.end:.1f} s")
    return first, last


@dataclass(slots=True)
class _Found:
    """The pictures so far: by index, those wanted and, for each that is lost, the nearest good one."""

    wanted: list[int]
    sampling: FrameSampling
    size: tuple[int, int] | None = None  # height and width of every picture, decided by the first
    pictures: dict[int, UInt8[np.ndarray, "H W 3"]] = field(default_factory=dict)
    instead: dict[int, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def missing(self) -> list[int]:
        return [index for index in self.wanted if index not in self.pictures and index not in self.instead]

    def take(self, index: int, frame: VideoFrame) -> None:
        if self.size is None:
            sideways = frame.rotation % 180
            height, width = (frame.width, frame.height) if sideways else (frame.height, frame.width)
            self.size = fit_size(height, width, self.sampling)
        self.pictures[index] = _picture(frame, *self.size)

    def take_instead(self, index: int, neighbours: Sequence[tuple[int, VideoFrame] | None]) -> None:
        """The nearest of its good neighbours stands in for a lost frame."""
        good = [neighbour for neighbour in neighbours if neighbour is not None]
        if good:
            nearest, frame = min(good, key=lambda neighbour: abs(neighbour[0] - index))
            self.take(nearest, frame)
            self.instead[index] = nearest


def _pick(media: Media, timeline: Timeline, found: _Found, strict: bool, threads: int) -> None:
    """Fill `found`: run by run from keyframes, then whatever is still missing in one pass from the start."""
    with _open(media) as container:
        stream = _picture_stream(container, media)
        if strict:
            stream.codec_context.options = {"err_detect": "explode"}
        stream.thread_type = "AUTO"
        stream.codec_context.thread_count = threads
        if not timeline.by_order:
            for key, run in timeline.runs(found.missing()):
                if key:
                    container.seek(int(timeline.pts[key]), stream=stream)
                _walk(_decoded(container, stream, timeline, run), run, found, give_up_late=bool(key))
        if missing := found.missing():
            if not timeline.by_order:
                container.seek(int(timeline.pts[0]), stream=stream)
            _walk(_decoded(container, stream, timeline, missing), missing, found, give_up_late=False)


def _walk(decoded: Iterator[tuple[int, VideoFrame]], run: Sequence[int], found: _Found, *, give_up_late: bool) -> None:
    """Take the wanted frames out of a stream of (index, picture); a lost one gets its nearest good neighbour.

    `give_up_late`: a stream that begins behind the first wanted frame says nothing about it (a seek may land late).
    """
    left, before = list(run), None
    for index, frame in decoded:
        if before is None and give_up_late and index > left[0]:
            return
        while left and left[0] < index:
            found.take_instead(left.pop(0), (before, (index, frame)))
        if left and left[0] == index:
            found.take(left.pop(0), frame)
        if not left:
            return
        before = (index, frame)
    for index in left:
        found.take_instead(index, (before,))


def _decoded(
    container: InputContainer, stream: VideoStream, timeline: Timeline, wanted: Sequence[int]
) -> Iterator[tuple[int, VideoFrame]]:
    """(index, picture) in the order shown. After an error nothing is trusted until the next keyframe.

    Pictures that are neither wanted nor needed by others are not decoded, where they can be told by their times.
    """
    decoder = stream.codec_context
    skipping = not timeline.by_order and decoder.name != "libdav1d"  # which keeps to what it is told first
    wanted_pts = {int(timeline.pts[index]) for index in wanted}
    index_of = {int(p): i for i, p in enumerate(timeline.pts)}
    counted, trusted, last = 0, True, -1
    for packet in _packets(container, stream):
        if packet is not None and skipping:
            decoder.skip_frame = "DEFAULT" if packet.pts in wanted_pts else "NONREF"
        try:
            frames = decoder.decode(packet)
        except (FFmpegError, OSError):
            trusted, counted = False, counted + 1
            continue
        for frame in frames:
            index = counted if timeline.by_order else index_of.get(frame.pts if frame.pts is not None else -1)
            counted += 1
            trusted = (trusted or frame.key_frame) and not frame.is_corrupt
            if trusted and index is not None and last < index < len(timeline):
                last = index
                yield index, frame


def _packets(container: InputContainer, stream: VideoStream) -> Iterator[Packet | None]:
    try:
        for packet in container.demux(stream):
            if packet.size:
                yield packet
    except (FFmpegError, OSError):
        pass  # what was read up to here is used; the timeline has its warning
    yield None  # flush the decoder


def _assemble(media: Media, timeline: Timeline, found: _Found, wanted: list[int]) -> Frames:
    """Stack the pictures that were found; stand-ins count once, and the number stays even."""
    kept = [found.instead.get(index, index) for index in wanted]
    lost = [index for index in found.wanted if index not in found.pictures or index in found.instead]
    warnings = [*timeline.warnings, *found.warnings]
    if lost:
        kept = sorted({index for index in kept if index in found.pictures})
        kept += kept[-1:] * (len(kept) % FRAMES_PER_PATCH)
        warnings.append(f"{len(lost)} of {len(found.wanted)} sampled frames could not be decoded")
    return Frames(
        pixels=np.stack([found.pictures[index] for index in kept]),
        timestamps=timeline.times[kept].astype(np.float64),
        indices=np.array(kept, np.int32),
        warnings=tuple(f"{media.path}: {warning}" for warning in warnings),
    )


def _picture(frame: VideoFrame, height: int, width: int) -> UInt8[np.ndarray, "H W 3"]:
    """Resized (bicubic) and turned as its rotation says, which is counterclockwise."""
    turns = round(frame.rotation / 90) % 4
    if turns % 2:
        height, width = width, height
    scaled = frame.reformat(width=width, height=height, format="rgb24", interpolation="BICUBIC")
    return np.ascontiguousarray(np.rot90(scaled.to_ndarray(), turns))


def _open(media: Media) -> InputContainer:
    """Containers of pictures only, from files only: a playlist would name other files, or addresses."""
    if Path(media.path).exists() and not Path(media.path).is_file():
        raise _broken(media, "not a file that can be read as a video")  # a pipe would keep its reader waiting
    options = {"protocol_whitelist": "file", "format_whitelist": _CONTAINERS}
    try:
        return av.open(media.path, options=options, metadata_errors="replace")
    except FFmpegError as error:
        raise _broken(media, f"not a video that can be opened ({error.strerror})") from None


def _picture_stream(container: InputContainer, media: Media) -> VideoStream:
    """The first video stream that is not a cover picture."""
    for stream in container.streams.video:
        if not stream.disposition & Disposition.attached_pic:
            return stream
    raise _broken(media, "it has no picture track")


def _broken(media: Media, detail: str) -> QuestionDropped:
    return QuestionDropped(Drop(DropReason.VIDEO_BROKEN, f"{Path(media.path)}: {detail}"))
