"""Worker processes that decode, each job with a deadline.

    caller threads ──▶ free workers (a queue) ──▶ worker process ──▶ frames in a file
                            ▲                        │ answered
                            └────────────────────────┤
                     a fresh slot ◀── killed ────────┘ deadline passed, or the process died

Invariant: there are exactly `workers` slots; a slot is either in the queue or held by one caller, and a caller gives
back a slot whose process is idle or gone. A process is started when its slot is first needed.
"""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from videorl.data.codecs import Codec
from videorl.data.decoding import Facts
from videorl.data.worker import Job
from videorl.errors import QuestionDropped, VideorlError
from videorl.types import Drop, DropReason, FrameSampling, Media

WORKER = (sys.executable, "-m", "videorl.data.worker")  # and, unless it is PyAV, the decoder's name
_START_SECONDS = 120.0
_GRACE_SECONDS = 5.0  # the worker's own timer is later than ours, so that we know that it was the deadline


class DecoderPool:
    """Thread-safe and blocking."""

    def __init__(self, workers: int, timeout: float, threads: int = 1, command: Sequence[str] = WORKER) -> None:
        """
        Args:
            workers: processes, started when they are first needed.
            timeout: seconds that one medium may take.
            threads: of the decoder, in each process.
            command: starts one process that speaks `worker`'s protocol.
        """
        self._timeout = timeout
        self._threads = threads
        self._slots: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._workers = [_Worker(tuple(command)) for _ in range(workers)]
        for worker in self._workers:
            self._slots.put(worker)

    def decode_to(self, target: Path, media: Media, sampling: FrameSampling, codec: Codec) -> None:
        """Decode and write the frames to `target`.

        Raises:
            QuestionDropped: VIDEO_BROKEN, DECODE_TIMEOUT or DECODE_CRASH; nothing is at `target` then.
            VideorlError: `target` cannot be written (disk full), which is no fault of the medium.
        """
        self._ask(Job(media, sampling, self._timeout + _GRACE_SECONDS, str(target), codec, self._threads))

    def probe(self, media: Media, sampling: FrameSampling) -> Facts:
        """What `decode_to` would write, without most of its work.

        Raises:
            QuestionDropped: as `decode_to`.
        """
        facts = self._ask(Job(media, sampling, self._timeout + _GRACE_SECONDS))["facts"]
        sequences = {name: tuple(facts[name]) for name in ("timestamps", "warnings")}
        return Facts(**facts | sequences)

    def _ask(self, job: Job) -> dict[str, Any]:
        worker = self._slots.get()
        try:
            answer = worker.ask(job.line(), self._timeout)
        except _Gone as gone:
            raise QuestionDropped(Drop(gone.reason, f"{job.media.path}: {gone}")) from None
        finally:
            self._slots.put(worker)
        if drop := answer.get("drop"):
            raise QuestionDropped(Drop(DropReason(drop["reason"]), drop["detail"]))
        if unwritten := answer.get("unwritten"):
            raise VideorlError(unwritten)
        return answer

    def close(self) -> None:
        """End all processes, busy ones too; their callers get a drop."""
        for worker in self._workers:
            worker.retire()


class _Gone(Exception):
    """The process was killed at its deadline, or died."""

    def __init__(self, reason: DropReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class _Worker:
    """One slot: a process, or none yet."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._starting = threading.Lock()
        self._retired = False

    def ask(self, job: str, timeout: float) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(job.encode())
            process.stdin.flush()
            return json.loads(self._line(timeout))
        except TimeoutError:
            self.end()
            raise _Gone(DropReason.DECODE_TIMEOUT, f"not decoded within {timeout:g} s") from None
        except (EOFError, BrokenPipeError):
            raise _Gone(DropReason.DECODE_CRASH, f"the decoder crashed ({self._post_mortem()})") from None

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def retire(self) -> None:
        """End the process, and start no other."""
        with self._starting:  # a process that is just being started would be missed
            self._retired = True
            self.end()

    def _start(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self._unread = b""
        with self._starting:
            if self._retired:
                raise VideorlError("the decoder pool is closed")
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        try:
            self._line(_START_SECONDS)
        except (TimeoutError, EOFError):
            self.end()
            raise VideorlError(f"the decoder process {' '.join(self._command)} does not start") from None

    def _line(self, timeout: float) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        pipe, end = self._process.stdout.fileno(), time.monotonic() + timeout
        while b"\n" not in self._unread:
            left = end - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise TimeoutError
            chunk = os.read(pipe, 65_536)
            if not chunk:
                raise EOFError
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def _post_mortem(self) -> str:
        assert self._process is not None
        code = self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"
