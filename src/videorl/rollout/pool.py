"""The living replicas, and which of them takes the next group.

    rollouter ── lease ──► least busy engine ── EngineDied inside the lease ──► out of the pool, `on_death` is told
                                                                                        │
                                cluster starts another one ── add ◄─────────────────────┘

Invariant: an engine is in the pool from `add` until its first EngineDied; a lease is of one engine, to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from videorl.errors import DeadlineExceeded, EngineDied
from videorl.rollout.engine import Engine


class EnginePool:
    """Least-busy dispatch over engines that may die and be replaced. Lives on one event loop."""

    def __init__(
        self, engines: Iterable[Engine], *, patience: float, on_death: Callable[[Engine], None] | None = None
    ) -> None:
        """Args:
        patience: seconds that a lease waits for an engine while none lives.
        on_death: told once for each engine that died, for whoever replaces it.
        """
        self._busy: dict[str, int] = {}
        self._engines: dict[str, Engine] = {}
        self._patience = patience
        self._on_death = on_death
        self._someone = asyncio.Event()
        for engine in engines:
            self.add(engine)

    @property
    def living(self) -> tuple[Engine, ...]:
        return tuple(self._engines.values())

    def add(self, engine: Engine) -> None:
        """Give it work from now on; it takes the place of a dead one of the same name."""
        self._engines[engine.name] = engine
        self._busy[engine.name] = 0
        self._someone.set()

    def remove(self, engine: Engine) -> None:
        """It is dead. Removing it twice, or after its replacement came, changes nothing."""
        if self._engines.get(engine.name) is not engine:
            return
        del self._engines[engine.name], self._busy[engine.name]
        if not self._engines:
            self._someone.clear()
        if self._on_death is not None:
            self._on_death(engine)

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Engine]:
        """The engine with the fewest leases.

        Raises:
            DeadlineExceeded: no engine lived for `patience` seconds.
        """
        try:
            async with asyncio.timeout(self._patience):
                await self._someone.wait()
        except TimeoutError:
            raise DeadlineExceeded(f"no rollout replica was alive for {self._patience:g} s") from None
        engine = min(self._engines.values(), key=lambda candidate: self._busy[candidate.name])
        self._busy[engine.name] += 1
        try:
            yield engine
        except EngineDied:
            self.remove(engine)
            raise
        finally:
            if self._engines.get(engine.name) is engine:
                self._busy[engine.name] -= 1
