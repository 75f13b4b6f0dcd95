"""The faults that reach a person. Everything else is a bug and keeps its traceback.

`UserError` ends the command with exit code 2, every other `VideorlError` with 1; each message is one line that names
the file, row or key, what is wrong and what would be right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line needs the errors at once, and not the arrays behind the types
    from videorl.types import Drop


class VideorlError(Exception):
    """A run or command that cannot go on, explained in one line (exit code 1)."""

    exit_code = 1


class UserError(VideorlError):
    """The user's input is at fault (exit code 2)."""

    exit_code = 2


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
