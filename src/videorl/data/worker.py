"""The process that decodes, so that a video which hangs or crashes its decoder takes nothing else with it.

    pool (parent)                          worker (this module, started as `python -m videorl.data.worker DECODER`)
      one JSON line on stdin    ───────▶   decode, write the frames to the file that the job names
      one JSON line on stdout   ◀───────   "ready", then one answer for each job

Invariant: the process ends by itself when its parent is gone or a job passes its deadline, even where the decoder
holds the interpreter: the parent's end of stdin closes, and the kernel's timer needs nobody's cooperation.
It imports no torch, unless it is told to decode by torchcodec, inherits nothing from its parent, and writes nothing but
answers to stdout.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

from safetensors import SafetensorError

from videorl.data.codecs import Codec, write_frames
from videorl.data.decoding import decode, probe
from videorl.errors import QuestionDropped
from videorl.types import Drop, DropReason, Frames, FrameSampling, Media

_PARENT_CHECK = 1.0  # seconds
Decode = Callable[[Media, FrameSampling, int], Frames]


@dataclass(slots=True, frozen=True)
class Job:
    """What a worker is asked: to decode into a file, or, without one, for the facts alone."""

    media: Media
    sampling: FrameSampling
    deadline: float  # seconds after which the process ends itself
    target: str | None = None
    codec: Codec = "raw"
    threads: int = 1

    def line(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def of_line(cls, line: str) -> Self:
        job = json.loads(line)
        media = Media(**job["media"] | {"frames": tuple(job["media"]["frames"])})
        return cls(**job | {"media": media, "sampling": FrameSampling(**job["sampling"])})


def main(decoder: str = "pyav") -> None:
    """Serve with the decoder that `data.decoder` names."""
    if decoder == "pyav":
        serve()
        return
    from videorl.data.torchcodec_pictures import read_pictures, require_torchcodec

    require_torchcodec()  # loaded before the first job's time runs
    serve(partial(decode, reader=read_pictures))


def serve(decode_one: Decode = decode) -> None:
    """Answer jobs until stdin ends."""
    answers = _claim_stdout()
    jobs: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs, os.getppid()), daemon=True).start()
    answers.write('"ready"\n')
    answers.flush()
    while (line := jobs.get()) is not None:
        answers.write(json.dumps(_answer(Job.of_line(line), decode_one)) + "\n")
        answers.flush()


def _answer(job: Job, decode_one: Decode) -> dict[str, Any]:
    """{"facts": …}, {"drop": …}, {"unwritten": …}, or nothing when the frames stand in the job's file."""
    signal.setitimer(signal.ITIMER_REAL, job.deadline)  # SIGALRM is left at its default: it ends the process
    try:
        if job.target is None:
            return {"facts": asdict(probe(job.media, job.sampling))}
        return _written(Path(job.target), decode_one(job.media, job.sampling, job.threads), job.codec)
    except QuestionDropped as dropped:
        return {"drop": asdict(dropped.drop)}
    except Exception as error:  # a fault of ours or of a library: this video is lost, the worker is not
        detail = f"{job.media.path}: {type(error).__name__}: {error}"
        return {"drop": asdict(Drop(DropReason.DECODE_CRASH, detail))}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _written(target: Path, frames: Frames, codec: Codec) -> dict[str, Any]:
    """A full disk is not the video's fault; an encoder's OSError, which has no errno, is."""
    try:
        write_frames(target, frames, codec)
    except (OSError, SafetensorError) as error:
        if isinstance(error, OSError) and error.errno is None:
            raise
        return {"unwritten": f"{target}: frames cannot be written: {error}"}
    return {}


def _listen(jobs: queue.SimpleQueue[str | None], parent: int) -> None:
    """Pass lines on; end the process when stdin closes or the parent has gone."""
    buffer = b""
    while True:
        ready, _, _ = select.select([0], [], [], _PARENT_CHECK)
        chunk = os.read(0, 65_536) if ready else None
        if chunk == b"" or os.getppid() != parent:
            os._exit(0)
        buffer += chunk or b""
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            jobs.put(line.decode())


def _claim_stdout() -> IO[str]:
    """Keep the pipe for answers; whatever a library prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return answers


if __name__ == "__main__":
    main(*sys.argv[1:])
