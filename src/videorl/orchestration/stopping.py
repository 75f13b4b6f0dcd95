"""SIGTERM and SIGINT, as a value that loops can wait for."""

from __future__ import annotations

import asyncio
import signal
from types import TracebackType
from typing import Any, Self

from videorl.errors import RunStopped


class StopSignal:
    """Asked for by the first SIGTERM or SIGINT while it is entered; the second one acts as it would without it."""

    _SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._by = ""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in self._SIGNALS}
        self.listen()
        return self

    def listen(self) -> None:
        """Take the signals (again: libraries that are started meanwhile take them for themselves)."""
        loop = asyncio.get_running_loop()
        for number in self._SIGNALS:
            loop.add_signal_handler(number, self.ask, number.name)

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    def ask(self, by: str) -> None:
        """Ask the run to stop; `by` says who did."""
        self._by = by
        self._asked.set()
        self._let_go()

    async def stopped(self) -> None:
        """Wait for the request.

        Raises:
            RunStopped: always, once it is there.
        """
        await self._asked.wait()
        raise RunStopped(f"stopped by {self._by}; start it again to go on from its last checkpoint")

    def _let_go(self) -> None:
        loop = asyncio.get_running_loop()
        for number in self._SIGNALS:
            loop.remove_signal_handler(number)  # which leaves the system's default
            signal.signal(number, self._before[number])
