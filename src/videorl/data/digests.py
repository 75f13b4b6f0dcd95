"""Content digests of media files, remembered by path, size, mtime and inode."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from pathlib import Path

from videorl.data.stills import still_files
from videorl.errors import QuestionDropped
from videorl.types import Drop, DropReason, Media

_BYTES = 20


class DigestCache:
    """One small file for each media file, in a folder that several processes may share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, media: Media) -> str:
        """Digest of everything that the medium's pixels come from.

        Raises:
            QuestionDropped: VIDEO_MISSING.
        """
        try:
            files = still_files(media) or [Path(media.path)]
            digests = [self._of_file(file) for file in files]
        except OSError as error:
            reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
            raise QuestionDropped(Drop(DropReason.VIDEO_MISSING, f"{error.filename or media.path}: {reason}")) from None
        return digests[0] if len(digests) == 1 else digest_text("\n".join(digests))

    def _of_file(self, path: Path) -> str:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "not a file that can be read as a video", str(path))
        stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
        name = digest_text(str(path))
        entry = self._folder / name[:2] / name
        try:
            remembered = json.loads(entry.read_text())
            if remembered["stamp"] == stamp:
                return remembered["digest"]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # not seen yet, or a cache entry that was cut off
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_BYTES)).hexdigest()
        with contextlib.suppress(OSError):  # a full disk costs the next look at this file its time, not the video
            write_atomically(entry, json.dumps({"path": str(path), "stamp": stamp, "digest": digest}))
        return digest


def digest_text(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=_BYTES).hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Readers see the whole text or none of it, whoever else writes the same path."""
    path.parent.mkdir(exist_ok=True)
    incoming = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    incoming.write_text(text)
    incoming.replace(path)
