"""How long something held, in laps."""

from __future__ import annotations

from collections.abc import Callable


class Stopwatch:
    """Adds up the seconds of `clock` during which it was switched on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        self._seconds = 0.0

    def switch(self, on: bool) -> None:
        self._seconds += self._running()
        self._since = self._clock() if on else None

    def lap(self) -> float:
        """Seconds since the last lap; a watch that is on runs on."""
        seconds, self._seconds = self._seconds + self._running(), 0.0
        if self._since is not None:
            self._since = self._clock()
        return seconds

    def _running(self) -> float:
        return 0.0 if self._since is None else self._clock() - self._since
