"""The faults that reach a person. Everything else is a bug and keeps its traceback.

`UserError` ends the command with exit code 2, every other `VideorlError` with 1; each message is one line that names
the file, row or key, what is wrong and what would be right.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line needs the errors at once, and not the arrays behind the types
    from videorl.types import Drop


class VideorlError(Exception):
    """A run or command that cannot go on, explained in one line (exit code 1)."""

    exit_code = 1


class UserError(VideorlError):
    """The user's input is at fault (exit code 2)."""

    exit_code = 2


_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def unwritten(what: object, error: OSError) -> VideorlError:
    """The error of a place that cannot be written: a full or broken disk is no fault of whoever named the place."""
    fault = VideorlError if error.errno in _OF_THE_MACHINE else UserError
    return fault(f"{what}: cannot be written: {os.strerror(error.errno) if error.errno else error}")


class EngineDied(VideorlError):
    """A rollout replica is gone; its requests are lost and must be issued elsewhere."""


class DeadlineExceeded(VideorlError):
    """A remote call did not answer in time."""


class RunStopped(VideorlError):
    """The run was asked to stop (SIGTERM, SIGINT) before it finished."""


class QuestionDropped(VideorlError):
    """A question that cannot be asked. Raised by data/ and rollout/, caught by whoever accounts for questions."""

    def __init__(self, drop: Drop) -> None:
        super().__init__(f"{drop.reason}: {drop.detail}")
        self.drop = drop

    def __reduce__(self) -> tuple[type, tuple[Drop]]:
        return type(self), (self.drop,)  # it crosses process borders, and is made again from its drop
