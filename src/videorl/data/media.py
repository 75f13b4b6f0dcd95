"""From what a row writes about its media to paths on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from videorl.data.fields import as_list, as_mapping, as_number, invalid, plain
from videorl.types import FrameSampling, Media

VIDEO_SUFFIXES = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v")
_LIMITS = tuple(f.name for f in fields(FrameSampling))


@dataclass(slots=True, frozen=True)
class MediaResolver:
    """Absolute, relative or file:// → an absolute path, prefixes remapped, relative ones kept under the root."""

    root: Path
    remap: Mapping[str, str] = field(default_factory=dict)

    def resolve(self, written: str) -> str:
        """The absolute path.

        Raises:
            QuestionDropped: ROW_INVALID, for an empty path, a remote one, or one that leaves the root.
        """
        path = self._remapped(_without_scheme(written.strip()))
        if not path or "\0" in path:
            raise invalid("a media path is empty")
        if any("\ud800" <= character <= "\udfff" for character in path):
            raise invalid(f"media path {path!r} is no text that can name a file")
        if path.startswith("/"):
            return os.path.normpath(path)
        root = os.path.abspath(self.root)
        resolved = os.path.normpath(f"{root}/{path}")  # lexically: links inside a root are the user's own
        if not resolved.startswith(f"{root.rstrip('/')}/"):
            raise invalid(f"media path {written!r} leaves its root {root}")
        return resolved

    def _remapped(self, path: str) -> str:
        for old, new in sorted(self.remap.items(), key=lambda item: -len(item[0])):
            stem = old.rstrip("/")
            if path == stem or path.startswith(stem + "/"):
                return new.rstrip("/") + path[len(stem) :]
        return path


def read_media(value: Any, kind: Literal["video", "image"], resolver: MediaResolver) -> Iterator[Media]:
    """The media of a `videos` or `images` field: null, one path, or a list of paths, mappings or frame lists.

    Raises:
        QuestionDropped: ROW_INVALID.
    """
    single = as_mapping(value)
    for item in [single] if single else as_list(value):
        yield _read_one(item, kind, resolver)


def by_name(name: str, resolver: MediaResolver) -> Media:
    """The video of a format that gives an id instead of a path: `{id}.mp4` under the root.

    Raises:
        QuestionDropped: ROW_INVALID.
    """
    named = name if name.lower().endswith(VIDEO_SUFFIXES) else f"{name}.mp4"
    return Media("video", resolver.resolve(named))


def _read_one(item: Any, kind: Literal["video", "image"], resolver: MediaResolver) -> Media:
    settings = as_mapping(item)
    if settings:
        item = settings.get(kind, settings.get("path"))
    item = plain(item)
    limits = {name: number for name in _LIMITS if (number := as_number(settings.get(name))) is not None}
    start = as_number(settings.get("video_start", settings.get("start")))
    end = as_number(settings.get("video_end", settings.get("end")))
    if isinstance(item, list | tuple) and item and all(isinstance(frame, str) for frame in item):
        frames = tuple(resolver.resolve(frame) for frame in item)
        return Media(kind, str(Path(frames[0]).parent), start, end, limits, frames)
    if isinstance(item, str):
        return Media(kind, resolver.resolve(item), start, end, limits)
    raise invalid(f"a {kind} is {type(item).__name__}; a path, a list of frame files or a mapping is known")


def _without_scheme(path: str) -> str:
    if "://" not in path:
        return path
    parts = urlsplit(path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise invalid(f"media path {path!r} is not on this machine; download it and write a path or file://")
    return unquote(path[len("file://") + len(parts.netloc) :])


def media_key(medium: Media) -> int:
    """A 64-bit hash that tells media apart, in this process only."""
    limits = tuple(sorted(medium.limits.items()))
    return hash((medium.path, medium.start, medium.end, limits, medium.frames, medium.shuffle))


def unpacked_media(packed: dict[str, Any]) -> Media:
    """The medium whose fields went through JSON."""
    values: dict[str, Any] = {**packed, "frames": tuple(packed["frames"])}
    return Media(**values)


class DistinctMedia:
    """Each medium once, numbered in the order in which they were met."""

    def __init__(self) -> None:
        self.all: list[Media] = []
        self._numbers: dict[int, int] = {}  # by hash: keys of their own would take more than the media

    def number(self, medium: Media) -> int:
        number = self._numbers.setdefault(media_key(medium), len(self.all))
        if number == len(self.all):
            self.all.append(medium)
        return number
