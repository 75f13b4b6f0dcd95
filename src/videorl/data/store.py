"""The frame store: a medium's sampled frames, decoded once and found again by what they are made of.

    reference(media)   digest of the content + clip + sampling + pixel form + version  →  key
    load(ref)          hit: map the file         miss: lock the key, decode in a worker, move the file to its place

    STORE/v2/frames/ab/abcd….safetensors      STORE/v2/digests/…   content digests by path, size, mtime and inode
    STORE/v2/incoming/…   being written       STORE/v2/locks/…     4,096 of them, each for the keys that begin alike

Invariant: a file under its final name is complete, because it was moved there. The lock only saves work: where it does
not hold (some shared file systems), two processes decode the same video and both end with one file. A file may vanish
at any time (eviction); then it is made again.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from videorl.config.schema import DataConfig
from videorl.data.codecs import Codec, pixel_form, read_frames
from videorl.data.digests import DigestCache, digest_text
from videorl.data.pool import WORKER, DecoderPool
from videorl.data.sampling import sampling_for
from videorl.data.torchcodec_pictures import require_torchcodec
from videorl.data.upkeep import SUFFIX, prune, usage
from videorl.errors import QuestionDropped, VideorlError, unwritten
from videorl.types import Drop, DropReason, FrameRef, Frames, FrameSampling, Media

VERSION = 2  # raised by a change of decoding or resizing that changes pixels
_LOCK_SECONDS = 600.0
_TOUCH_SECONDS = 60.0  # a file is marked as used at most this often
_PRUNE_TO = 0.9  # of the cap
_COUNT_AGAIN = 0.02  # of the cap: so much is written between two looks at the folder's size


class FrameStore:
    """Implements FrameSource. Thread-safe; several processes may share a folder, over a shared file system too."""

    def __init__(
        self, folder: Path, sampling: FrameSampling, pool: DecoderPool, codec: Codec = "raw", cap_gb: float = 200.0
    ) -> None:
        """
        Args:
            folder: made if absent.
            sampling: what holds where a row sets nothing itself.
            cap_gb: size, in 10^9 bytes, beyond which the least recently used frames are removed.

        Raises:
            VideorlError: the folder cannot be written.
        """
        self._root = store_root(folder)
        self._sampling = sampling
        self._pool = pool
        self._codec: Codec = codec
        self._cap = int(cap_gb * 1e9)
        self._uncounted = self._cap  # bytes since the folder was measured: the first write measures it
        self._counting = threading.Lock()
        self._digests = DigestCache(self._root / "digests")
        try:
            for name in ("frames", "digests", "locks", "incoming"):
                (self._root / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritten(f"frame store {folder}", error) from None

    @classmethod
    def from_config(cls, data: DataConfig, folder: Path) -> Self:
        """The store of a run (`folder` is its `store_dir`), with a pool of its own.

        Raises:
            UserError: the folder cannot be written, or the decoder does not load.
        """
        if data.decoder == "torchcodec":
            require_torchcodec()
        command = (*WORKER, data.decoder)
        pool = DecoderPool(data.decode_workers, data.decode_timeout, data.decode_threads, command)
        return cls(folder, data.frame_sampling, pool, data.store_codec, data.store_gb)

    def reference(self, media: Media) -> FrameRef:
        sampling = sampling_for(media, self._sampling)
        made_of = {
            "content": self._digests.of(media),
            "kind": media.kind,
            "clip": [media.start, media.end],
            "shuffle": media.shuffle,
            "sampling": asdict(sampling),
            "pixels": pixel_form(self._codec),
            "version": VERSION,
        }
        return FrameRef(digest_text(json.dumps(made_of, sort_keys=True)), media, sampling)

    def load(self, ref: FrameRef) -> Frames:
        frames = self._read(ref)
        if frames is not None:
            return frames
        with contextlib.ExitStack() as held:
            with contextlib.suppress(Timeout):
                lock = FileLock(self._root / "locks" / ref.key[:3], timeout=_LOCK_SECONDS)
                held.enter_context(lock)
            frames = self._read(ref)
            if frames is None:
                self._make(ref)
                frames = self._read(ref)
        if frames is None:
            detail = f"{ref.media.path}: its frames do not stay in the store (is its cap too small?)"
            raise QuestionDropped(Drop(DropReason.VIDEO_BROKEN, detail))
        return frames

    def __contains__(self, ref: FrameRef) -> bool:
        return self._path(ref).is_file()

    def close(self) -> None:
        """End the decoder processes; frames that were given out stay valid."""
        self._pool.close()

    def _read(self, ref: FrameRef) -> Frames | None:
        path = self._path(ref)
        try:
            frames = read_frames(path)
            if time.time() - path.stat().st_mtime > _TOUCH_SECONDS:
                os.utime(path)  # the time of last use, for eviction
            return frames
        except FileNotFoundError:
            return None
        except ValueError:  # damaged by a disk or by hand: made again
            path.unlink(missing_ok=True)
            return None

    def _make(self, ref: FrameRef) -> None:
        incoming = self._root / "incoming" / f"{ref.key}.{os.getpid()}.{os.urandom(4).hex()}"
        path = self._path(ref)
        try:
            self._pool.decode_to(incoming, ref.media, ref.sampling, self._codec)
            path.parent.mkdir(exist_ok=True)
            size = incoming.stat().st_size
            incoming.replace(path)
        except OSError as error:
            raise VideorlError(f"frame store {self._root}: cannot be written: {error.strerror or error}") from None
        finally:
            incoming.unlink(missing_ok=True)
        self._make_room(size)

    def _make_room(self, written: int) -> None:
        """Prune once the folder has outgrown the cap; measuring it is rare, for other processes write there too."""
        with self._counting:
            self._uncounted += written
            if self._uncounted < self._cap * _COUNT_AGAIN:
                return
            self._uncounted = 0
            if usage(self._root).bytes > self._cap:
                prune(self._root, int(self._cap * _PRUNE_TO))

    def _path(self, ref: FrameRef) -> Path:
        return self._root / "frames" / ref.key[:2] / f"{ref.key}{SUFFIX}"


def store_root(folder: Path) -> Path:
    """Where this version's frames lie in a store folder."""
    return folder / f"v{VERSION}"
