"""RUN/status.json: how a run stands, for people and tools that look in from outside.

    starting ──► running ──► finished | stopped | failed

Invariant: the file is whole at every moment, and says how the run ended unless the process was killed. Then its
heartbeat stands still.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from videorl.errors import RunStopped, VideorlError
from videorl.orchestration.calls import one_line
from videorl.orchestration.files import write_atomically


@dataclass(slots=True, frozen=True)
class Status:
    """What status.json holds."""

    state: Literal["starting", "running", "finished", "stopped", "failed"] = "starting"
    step: int = 0  # completed fit steps
    version: int = 0
    max_steps: int | None = None
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)
    started: float = field(default_factory=time.time)  # seconds since 1970, as is `heartbeat`
    heartbeat: float = field(default_factory=time.time)
    last_error: str | None = None


class RunState:
    """Keeps status.json up to date from start to end, whatever happens in between. Use as a context manager."""

    def __init__(self, path: Path, max_steps: int | None = None) -> None:
        self._path = path
        self._status = Status(max_steps=max_steps)

    def __enter__(self) -> Self:
        self.beat()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if fault is None:
            self._status = replace(self._status, state="finished")
        else:
            stopped = isinstance(fault, (RunStopped, KeyboardInterrupt, asyncio.CancelledError))
            state = "stopped" if stopped else "failed"
            self._status = replace(self._status, state=state, last_error=one_line(fault))
        try:
            self.beat()
        except VideorlError as error:
            if fault is None:
                raise
            fault.add_note(f"moreover {error}")

    @property
    def status(self) -> Status:
        return self._status

    def running(self, step: int, version: int) -> None:
        """`step` fit steps are completed and `version` is published."""
        self._status = replace(self._status, state="running", step=step, version=version)
        self.beat()

    def beat(self) -> None:
        """Say that the process lives."""
        self._status = replace(self._status, heartbeat=time.time())
        write_atomically(self._path, json.dumps(asdict(self._status), indent=2) + "\n")
