"""Rollout replicas as Ray actors, seen through the Engine protocol.

    controller ── RayEngine.generate ──► ReplicaActor (asyncio) ──► VllmEngine ──► its own processes

What travels: prompts (ids and frame references) one way, rollouts (ids, log-probs, versions) the other. Each replica
reads frames itself, from the store that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray.exceptions import RayActorError, RayTaskError

from videorl.cluster.placement import Placement
from videorl.config.schema import DataConfig
from videorl.errors import EngineDied, VideorlError
from videorl.orchestration.calls import one_line
from videorl.rollout.settings import EngineSettings
from videorl.types import Prompt, Rollout, Sampling, WeightHandle

T = TypeVar("T")

CLOSE_SECONDS = 20.0  # a replica that does not end by itself within this is killed


class ReplicaActor:
    """Runs one VllmEngine in a process of its own."""

    async def start(self, settings: EngineSettings, data: DataConfig, store: Path, name: str) -> None:
        from videorl.data.store import FrameStore
        from videorl.rollout.vllm_engine import VllmEngine

        self._store = FrameStore.from_config(data, store)
        self._engine = await VllmEngine.start(settings, self._store, name)

    async def generate(self, request_id: str, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        return await self._engine.generate(request_id, prompt, n, sampling)

    async def load_weights(self, handle: WeightHandle) -> None:
        await self._engine.load_weights(handle)

    async def version(self) -> int:
        return await self._engine.version()

    async def close(self) -> None:
        await self._engine.close()
        self._store.close()


class RayEngine:
    """Implements Engine: a replica in another process, whose death is EngineDied."""

    def __init__(self, name: str, actor: Any) -> None:
        self.name = name
        self._actor = actor

    async def start(self, settings: EngineSettings, data: DataConfig, store: Path) -> None:
        await self._answer(self._actor.start.remote(settings, data, store, self.name))

    async def generate(self, request_id: str, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        return await self._answer(self._actor.generate.remote(request_id, prompt, n, sampling))

    async def load_weights(self, handle: WeightHandle) -> None:
        await self._answer(self._actor.load_weights.remote(handle))

    async def version(self) -> int:
        return await self._answer(self._actor.version.remote())

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError, VideorlError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._answer(self._actor.close.remote())
        ray.kill(self._actor)

    async def _answer(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except RayActorError as error:
            raise EngineDied(f"{self.name}: its process is gone: {str(error).splitlines()[0]}") from None
        except RayTaskError as error:
            raise unwrapped(self.name, error) from error


def unwrapped(who: str, error: RayTaskError) -> Exception:
    """Our own exception out of Ray's wrapper; any other fault in one line. Raise it from `error`, the remote trace."""
    fault = error.cause
    return fault if isinstance(fault, VideorlError) else VideorlError(f"{who}: {one_line(fault)}")


@asynccontextmanager
async def replicas(
    placement: Placement,
    settings: Sequence[EngineSettings],
    data: DataConfig,
    store: Path,
    *,
    first_bundle: int = 0,
    devices_each: float | None = None,
) -> AsyncIterator[list[RayEngine]]:
    """One started replica for each of `settings`, in consecutive bundles; closed on leaving.

    Args:
        devices_each: of a bundle's devices, what a replica takes; unset: tensor_parallel.

    Raises:
        EngineDied, DeadlineExceeded: one of them did not start.
    """
    engines: list[RayEngine] = []
    try:
        for i, one in enumerate(settings):
            devices = one.tensor_parallel if devices_each is None else devices_each
            actor = placement.actor(ReplicaActor, first_bundle + i, devices).remote()
            engines.append(RayEngine(f"replica-{one.replica}", actor))
        async with asyncio.TaskGroup() as tasks:
            for engine, one in zip(engines, settings, strict=True):
                tasks.create_task(engine.start(one, data, store))
        yield engines
    except BaseExceptionGroup as faults:
        raise faults.exceptions[0] from None
    finally:
        await asyncio.gather(*(engine.close() for engine in engines))
