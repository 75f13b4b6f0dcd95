"""Files that others read while they are written, and that outlive what happens meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

from videorl.errors import VideorlError


def write_atomically(path: Path, text: str) -> None:
    """A reader sees the old text or the new one, never a part.

    Raises:
        VideorlError: it cannot be written (disk full).
    """
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise VideorlError(f"{path}: cannot be written: {error.strerror or error}") from None


def to_disk(path: Path) -> None:
    """What has been written to a file, or listed in a folder, outlives a power cut from now on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
