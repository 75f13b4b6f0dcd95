"""What is in a frame store, whether it can be read, and making room in it."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from videorl.data.codecs import read_codec, read_frames

SUFFIX = ".safetensors"
_STALE_SECONDS = 24 * 3600.0  # an incoming file this old was left by a writer that died


@dataclass(slots=True, frozen=True)
class Usage:
    """Size of a store."""

    files: int
    bytes: int


def usage(root: Path) -> Usage:
    sizes = [entry.stat().st_size for entry in _entries(root)]
    return Usage(len(sizes), sum(sizes))


def codecs(root: Path) -> dict[str, int]:
    """How many files hold their frames in which form."""
    counts: Counter[str] = Counter()
    for entry in _entries(root):
        with contextlib.suppress(FileNotFoundError, ValueError):
            counts[read_codec(Path(entry.path))] += 1
    return dict(counts)


def verify(root: Path) -> Iterator[tuple[Path, str | None]]:
    """Each file with None, or with what is wrong with it."""
    for entry in _named(root):
        path = Path(entry.path)
        if not entry.is_file(follow_symlinks=False):
            yield path, f"{path}: not a file"
            continue
        try:
            read_frames(path)
            yield path, None
        except FileNotFoundError:
            continue  # evicted meanwhile
        except ValueError as error:
            yield path, str(error)


def prune(root: Path, target_bytes: int) -> Usage:
    """Remove the least recently used files until at most `target_bytes` are left, and what dead writers left.

    Returns:
        What was removed.
    """
    by_use: list[tuple[float, int, str]] = []
    for entry in _entries(root):
        with contextlib.suppress(FileNotFoundError):
            status = entry.stat()
            by_use.append((status.st_mtime, status.st_size, entry.path))
    total, files, freed = sum(size for _, size, _ in by_use), 0, 0
    for _, size, path in sorted(by_use):
        if total - freed <= target_bytes:
            break
        with contextlib.suppress(FileNotFoundError):
            Path(path).unlink()  # a reader that has it mapped keeps its pages
            files, freed = files + 1, freed + size
    for left in (root / "incoming").glob("*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                left.unlink()
    return Usage(files, freed)


def _entries(root: Path) -> Iterator[os.DirEntry[str]]:
    return (entry for entry in _named(root) if entry.is_file(follow_symlinks=False))


def _named(root: Path) -> Iterator[os.DirEntry[str]]:
    """What bears a name of frames; a pipe or a link that somebody put there too."""
    for folder in sorted(root.glob("frames/??")):
        with os.scandir(folder) as entries:
            yield from (entry for entry in entries if entry.name.endswith(SUFFIX))
