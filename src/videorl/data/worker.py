"""The process that decodes, so that a video which hangs or crashes its decoder takes nothing else with it.

    pool (parent)                          worker (this module, started as `python -m videorl.data.worker`)
      one JSON line on stdin    ───────▶   decode, write the frames to the file that the job names
      one JSON line on stdout   ◀───────   "ready", then one answer for each job

Invariant: the process ends by itself when its parent is gone or a job passes its deadline, even where the decoder
holds the interpreter: the parent's end of stdin closes, and the kernel's timer needs nobody's cooperation.
It imports no torch, inherits nothing from its parent, and writes nothing but answers to stdout.
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
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from videorl.data.codecs import Codec, write_frames
from videorl.data.decoding import decode
from videorl.errors import QuestionDropped
from videorl.types import Drop, DropReason, Frames, FrameSampling, Media

_PARENT_CHECK = 1.0  # seconds
Decode = Callable[[Media, FrameSampling, int], Frames]


def encode_job(media: Media, sampling: FrameSampling, codec: Codec, target: Path, threads: int, deadline: float) -> str:
    """One job as a line."""
    job = {"media": asdict(media), "sampling": asdict(sampling), "codec": codec, "target": str(target)}
    return json.dumps(job | {"threads": threads, "deadline": deadline}) + "\n"


def serve(decode_one: Decode = decode) -> None:
    """Answer jobs until stdin ends."""
    answers = _claim_stdout()
    jobs: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(jobs, os.getppid()), daemon=True).start()
    answers.write('"ready"\n')
    answers.flush()
    while (line := jobs.get()) is not None:
        answers.write(json.dumps(_answer(json.loads(line), decode_one)) + "\n")
        answers.flush()


def _answer(job: dict[str, Any], decode_one: Decode) -> dict[str, str]:
    """Empty when the frames stand in the job's file, else the drop."""
    media = Media(**job["media"] | {"frames": tuple(job["media"]["frames"])})
    signal.setitimer(signal.ITIMER_REAL, job["deadline"])  # SIGALRM is left at its default: it ends the process
    try:
        frames = decode_one(media, FrameSampling(**job["sampling"]), job["threads"])
        write_frames(Path(job["target"]), frames, job["codec"])
        return {}
    except QuestionDropped as dropped:
        return {"reason": dropped.drop.reason.value, "detail": dropped.drop.detail}
    except Exception as error:  # a fault of ours or of a library: this video is lost, the worker is not
        return asdict(Drop(DropReason.DECODE_CRASH, f"{media.path}: {type(error).__name__}: {error}"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


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
    serve()
