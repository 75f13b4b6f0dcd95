"""Calls to what lives in other processes: each has a deadline, and a fault in one line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from videorl.errors import DeadlineExceeded, VideorlError

T = TypeVar("T")


async def answered(what: str, call: Awaitable[T], seconds: float) -> T:
    """The answer of `call`.

    Raises:
        DeadlineExceeded: there was none within `seconds`.
        VideorlError: it failed; the message says `what`, the cause keeps its traceback.
    """
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            return await call
    except VideorlError:
        raise
    except Exception as error:
        if scope.expired():
            raise DeadlineExceeded(f"{what} did not answer within {seconds:g} s") from None
        raise VideorlError(f"{what} failed: {one_line(error)}") from error


async def together(*calls: Coroutine[Any, Any, Any]) -> None:
    """Run all at once; the first fault cancels the others and is raised as itself."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for call in calls:
                tasks.create_task(call)
    except BaseExceptionGroup as faults:
        raise first_fault(faults) from faults


def first_fault(faults: BaseExceptionGroup) -> BaseException:
    """The fault that a task group met first (it cancels the others, whose faults follow from that)."""
    first = faults.exceptions[0]
    return first_fault(first) if isinstance(first, BaseExceptionGroup) else first


def one_line(error: BaseException) -> str:
    """The first line that an exception says, with its type where the message alone would not tell."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, VideorlError):
        return lines[0] if lines else type(error).__name__
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
