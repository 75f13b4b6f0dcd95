"""The pictures of a video decoded by torchcodec: `data.decoder = "torchcodec"`. Implements `decoding.PictureReader`.

    PyAV's first picture ──▶ a form: size, pixel format, colours, rotation ──┐
    torchcodec's planes, as they leave the codec ────────────────────────────┴▶ resized and turned as PyAV's own are

So one code path makes pixels, whoever decodes, and equal planes give equal frames: they share their places in the frame
store. Where planes might not be equal this refuses the file, and PyAV decodes it: the first picture is decoded by both
and compared, every other must come out at its time, and FFmpeg must not complain. torchcodec says nothing of a picture
that FFmpeg has patched up, so what FFmpeg logs is read, and its log goes to file descriptor 2: one video at a time in a
process. torch is imported when this is first used.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from av.container import InputContainer
from av.error import FFmpegError
from av.video.frame import VideoFrame
from av.video.stream import VideoStream
from jaxtyping import UInt8

from videorl.data.decoding import ReaderRefused
from videorl.data.timeline import Timeline
from videorl.errors import UserError

_OLDEST = "0.17"  # the first that hands out planes
_CODECS = frozenset({"h264"})  # in hevc, vp8, vp9 and mpeg4 FFmpeg may hide damage without a word; av1 is untried
_REFUSALS = (RuntimeError, ValueError, OSError, FFmpegError)
_LOG_LEVEL = "TORCHCODEC_FFMPEG_LOG_LEVEL"
_COMPLAINT = re.compile(rb"^\[[^]]+ @ 0x[0-9a-f]+\] (.*)$", re.MULTILINE)


def missing() -> str | None:
    """What keeps torchcodec from loading here, in a few words; None where it loads."""
    try:
        torchcodec = import_module("torchcodec")
    except ModuleNotFoundError as error:
        return f"the package {error.name} is not installed"
    except Exception as error:  # whatever a library raises that does not fit its torch
        return "the package torchcodec does not load: " + " ".join(str(error).split())[:200]
    if not hasattr(torchcodec.decoders, "Demuxer"):
        return f"torchcodec {torchcodec.__version__} is older than {_OLDEST}"
    if torchcodec.ffmpeg_major_version is None:
        return "torchcodec finds no shared libraries of FFmpeg"
    return None


def version() -> str:
    """What is loaded."""
    torchcodec = import_module("torchcodec")
    return f"{torchcodec.__version__} with FFmpeg {torchcodec.ffmpeg_major_version}"


def require_torchcodec() -> None:
    """
    Raises:
        UserError: torchcodec does not load here.
    """
    if lacking := missing():
        raise UserError(
            f'data.decoder = "torchcodec": {lacking}; it takes torchcodec {_OLDEST} or newer, made for this torch, and '
            f'the shared libraries of FFmpeg (4 to 9), or set data.decoder = "pyav"'
        )


def read_pictures(
    container: InputContainer,
    stream: VideoStream,
    timeline: Timeline,
    wanted: Sequence[int],
    threads: int,
    take: Callable[[int, VideoFrame], None],
) -> None:
    """As `decoding.PictureReader`."""
    codec = stream.codec_context.codec.canonical_name
    if codec not in _CODECS:
        raise ReaderRefused(f"torchcodec is not known to tell where {codec} is damaged")
    os.environ[_LOG_LEVEL] = "ERROR"
    try:
        # An open file, not its name: what a playlist inside it names is then not opened.
        with Path(container.name).open("rb") as file, _complaints() as complaints:
            demuxer = import_module("torchcodec.decoders").Demuxer(file, streams=stream.index)
            decoder = demuxer.streams[0].make_decoder(device="cpu", num_ffmpeg_threads=threads)
            pictures = _Pictures(demuxer, decoder, timeline, float(stream.time_base or 0))
            pictures.give(wanted, _first_form(container, stream), take)
    except _REFUSALS as error:
        raise ReaderRefused(f"torchcodec refuses: {' '.join(str(error).split())[:200]}") from None
    if complaints:
        raise ReaderRefused(f"torchcodec finds damage: {complaints[0]}")


class _Raw(Protocol):
    """What of torchcodec's RawFrame is used."""

    pts_seconds: float
    pixel_format: str
    width: int
    height: int
    planes: Sequence[Any]  # of each component a tensor on the CPU


@dataclass(slots=True)
class _Pictures:
    """The decoded stream of one file, told apart by the times that the timeline has."""

    demuxer: Any  # torchcodec's Demuxer, following one stream
    decoder: Any  # its VideoPacketDecoder
    timeline: Timeline
    tick: float  # seconds

    def give(self, wanted: Sequence[int], form: _Form, take: Callable[[int, VideoFrame], None]) -> None:
        """Run by run from keyframes, as PyAV is driven; what does not come out at its time is not looked for again."""
        decoded = self._indexed()
        first = next(decoded, None)
        if first is None or not form.holds(first[1]):
            raise ValueError("its first picture is not PyAV's")
        decoded = itertools.chain([first], decoded)
        for key, run in self.timeline.runs(wanted):
            if key:
                self.demuxer.seek(float(self.timeline.pts[key]) * self.tick)
                self.decoder.reset()
                decoded = self._indexed()
            left = list(run)
            for index, raw in decoded:
                if index == left[0]:
                    take(left.pop(0), form.filled(raw))
                    if not left:
                        break
            if left:
                raise ValueError(f"frame {left[0]} does not come out")

    def _indexed(self) -> Iterator[tuple[int | None, _Raw]]:
        """From where the demuxer stands to the end of the file: counted where the timeline is `by_order`."""
        index_of = {int(pts): index for index, pts in enumerate(self.timeline.pts)}
        for count, raw in enumerate(self._raw()):
            yield count if self.timeline.by_order else index_of.get(round(raw.pts_seconds / self.tick)), raw

    def _raw(self) -> Iterator[_Raw]:
        for packet in self.demuxer:
            yield from self.decoder.decode(packet)
        yield from self.decoder.drain()


@dataclass(slots=True, frozen=True)
class _Form:
    """A picture decoded by PyAV, whose samples are replaced: all that is said of them beside stays."""

    frame: VideoFrame

    def holds(self, raw: _Raw) -> bool:
        """Whether these are its samples, to the bit."""
        return all(np.array_equal(own, samples) for own, samples in self._pairs(raw))

    def filled(self, raw: _Raw) -> VideoFrame:
        self.frame.make_writable()  # a copy, as long as PyAV's decoder holds the frame
        for own, samples in self._pairs(raw):
            own[...] = samples
        return self.frame

    def _pairs(self, raw: _Raw) -> Iterator[tuple[UInt8[np.ndarray, "h w"], UInt8[np.ndarray, "h w"]]]:
        """The samples of each plane, PyAV's (writable) and torchcodec's; uint16 where they are deeper than 8 bits."""
        frame = self.frame
        if (raw.pixel_format, raw.width, raw.height) != (frame.format.name, frame.width, frame.height):
            raise ValueError(f"a picture of {raw.width} x {raw.height} {raw.pixel_format} among others")
        for plane, component in zip(frame.planes, raw.planes, strict=True):  # fails where a plane holds several
            samples = component.numpy()
            memory = np.frombuffer(plane, samples.dtype)  # type: ignore[call-overload]
            rows = memory.reshape(-1, plane.line_size // samples.itemsize)
            yield rows[: samples.shape[0], : samples.shape[1]], samples


def _first_form(container: InputContainer, stream: VideoStream) -> _Form:
    stream.codec_context.thread_count = 1
    for frame in container.decode(stream):
        return _Form(frame)
    raise ValueError("it has no first picture")


@contextlib.contextmanager
def _complaints() -> Iterator[list[str]]:
    """What FFmpeg has logged as an error to file descriptor 2, known at the end; whatever else came there goes on."""
    said: list[str] = []
    with tempfile.TemporaryFile() as log:
        before = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(before, 2)
            os.close(before)
            log.seek(0)
            written = log.read()
            said += [line.decode(errors="replace").strip() for line in _COMPLAINT.findall(written)]
            if rest := _COMPLAINT.sub(b"", written).strip():
                os.write(2, rest + b"\n")
