"""Every outstanding group, from the issue of its question until its place may be given to another.

    issue ──► preparing ──► sampling ──► finished ──► spent ──► published: its place is free
                  │             │
                  └─────────────┴──► dropped: its place is free

Invariant: a group stands in exactly one of the four, and `outstanding` counts them all. A question that is still being
prepared (frames, prompt) has no version; it gets the current one at the moment its request reaches an engine.

Everything happens on one event loop, so what `until` has found true is still true at the next line.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Callable

from videorl.algo.staleness import all_in_time
from videorl.errors import DeadlineExceeded
from videorl.orchestration.stopwatch import Stopwatch
from videorl.types import Group, IssuedQuestion


class Buffer:
    """Counts what is outstanding, keeps finished groups in the order in which they are trained, wakes who waits."""

    def __init__(self) -> None:
        self._preparing: set[str] = set()
        self._sampling: dict[str, int] = {}  # key → the version at which its request was handed over
        self._finished: list[Group] = []  # oldest first
        self._spent = 0
        self._peak = 0
        self._changed = asyncio.Event()  # of the next change; each change has an event of its own
        self._idle = Stopwatch(asyncio.get_running_loop().time)  # on while no engine has a request
        self._idle.switch(True)

    # ── the way of a group ──────────────────────────────────────────────────────────────────────────────────────

    def issue(self, issued: IssuedQuestion) -> None:
        self._preparing.add(issued.key)
        self._peak = max(self._peak, self.outstanding)
        self.wake()

    def sample(self, issued: IssuedQuestion, version: int) -> None:
        """Its request is handed to an engine now (once more, where an engine died with it)."""
        self._preparing.discard(issued.key)
        self._sampling[issued.key] = version
        self.wake()

    def finish(self, group: Group) -> None:
        self._land(group.issued)
        bisect.insort(self._finished, group, key=_age)
        self.wake()

    def drop(self, issued: IssuedQuestion) -> None:
        self._land(issued)
        self.wake()

    def spend(self, count: int) -> list[Group]:
        """Take the `count` oldest finished groups for an update (fewer where there are fewer)."""
        groups, self._finished = self._finished[:count], self._finished[count:]
        self._spent += len(groups)
        self.wake()
        return groups

    def publish(self) -> None:
        """The version after the spent groups is out."""
        self._spent = 0
        self.wake()

    # ── what the loops ask ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def in_flight(self) -> int:
        return len(self._preparing) + len(self._sampling)

    @property
    def sampling(self) -> int:
        """Groups in an engine."""
        return len(self._sampling)

    @property
    def finished(self) -> int:
        return len(self._finished)

    @property
    def spent(self) -> int:
        """Groups trained in this fit step."""
        return self._spent

    @property
    def untrained(self) -> int:
        return self.in_flight + self.finished

    @property
    def outstanding(self) -> int:
        return self.untrained + self._spent

    def in_time_without(self, count: int, version: int, slots: int, groups_per_step: int, max_lag: int) -> bool:
        """Whether training the `count` oldest now leaves time for every other group (see `all_in_time`)."""
        left = [*self._sampling.values(), *(group.oldest_version for group in self._finished[count:])]
        return all_in_time(left, version, slots, groups_per_step, max_lag)

    async def until(self, ready: Callable[[], bool], stalled: float | None) -> None:
        """Wait until `ready`; every change has it looked at again.

        Raises:
            DeadlineExceeded: nothing has changed for `stalled` seconds (None: what is waited for has its own deadline).
        """
        while not ready():
            changed = self._changed
            try:
                # Not asyncio.wait_for, which in Python 3.11 forgets a cancellation that meets the change.
                async with asyncio.timeout(stalled):
                    await changed.wait()
            except TimeoutError:
                raise DeadlineExceeded(
                    f"no group has moved for {stalled:g} s: {len(self._preparing)} in preparation, "
                    f"{self.sampling} in the engines, {self.finished} finished"
                ) from None

    def wake(self) -> None:
        """Whoever waits looks again."""
        self._idle.switch(not self._sampling)
        # Never cleared: one waiter must not take back what another, whose wait has not begun yet, has to see.
        self._changed.set()
        self._changed = asyncio.Event()

    # ── what a fit step's record asks ───────────────────────────────────────────────────────────────────────────

    def idle_lap(self) -> float:
        """Seconds since the last lap during which no engine had a request."""
        return self._idle.lap()

    def peak_lap(self) -> int:
        """The most that was outstanding since the last lap."""
        peak, self._peak = self._peak, self.outstanding
        return peak

    def _land(self, issued: IssuedQuestion) -> None:
        self._preparing.discard(issued.key)
        self._sampling.pop(issued.key, None)


def _age(group: Group) -> tuple[int, int, int]:
    return group.oldest_version, group.issued.epoch, group.issued.position
