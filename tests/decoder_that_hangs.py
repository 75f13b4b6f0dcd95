"""A decoder process for tests: the real one, but a file named "hang…" or "crash…" makes it do so."""

import ctypes
import os
import time

from videorl.data.decoding import decode
from videorl.data.worker import serve
from videorl.types import Frames, FrameSampling, Media


def misbehave(media: Media, sampling: FrameSampling, threads: int) -> Frames:
    name = os.path.basename(media.path)  # noqa: PTH119
    if name.startswith("hang"):
        time.sleep(3600)
    if name.startswith("stuck"):  # holds the interpreter, as a C library may
        ctypes.PyDLL(None).sleep(3600)
    if name.startswith("crash"):
        ctypes.string_at(0)
    if name.startswith("bug"):
        raise RuntimeError("a fault of ours")
    return decode(media, sampling, threads)


if __name__ == "__main__":
    serve(misbehave)
