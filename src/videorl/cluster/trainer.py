"""Trainer ranks as Ray actors behind the one Trainer that the controller knows.

    controller ── RayTrainer.update ── plan ──► every RankActor at once ──► the same UpdateReport from each

A call goes to all ranks or to none, and one at a time: ranks meet in collectives.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import ray
import torch
import torch.distributed as dist
from ray.exceptions import RayActorError, RayTaskError
from ray.util import get_node_ip_address as node_ip

from videorl.batching.plan import plan_micro_batches
from videorl.cluster.engines import unwrapped
from videorl.cluster.placement import Device, Placement
from videorl.config.schema import Config
from videorl.data.store import FrameStore
from videorl.data.tokens import TokenRules
from videorl.errors import VideorlError
from videorl.rollout.weights import SharedMemorySender, WeightSender, shared_memory_root
from videorl.train.objective import Objective
from videorl.train.optimizer import learning_rate
from videorl.train.rank import RankUpdate, TrainerRank, compute_dtype
from videorl.types import TrainGroup, UpdateBatch, UpdateReport, WeightHandle


@dataclass(slots=True, frozen=True)
class TrainerJob:
    """What all ranks are told at their start."""

    config: Config
    tokens: TokenRules
    objective: Objective
    transport: Literal["shm", "nccl"] | None  # None: nobody takes the weights


class RankActor:
    """Holds one TrainerRank and its process group. Every method is a collective."""

    def meet_at(self, loopback: bool) -> str:
        """A free address on this rank's machine for the ranks to meet at (asked of rank 0)."""
        host = "127.0.0.1" if loopback else node_ip()
        with socket.socket() as probe:
            probe.bind((host, 0))
            return f"tcp://{host}:{probe.getsockname()[1]}"

    def start(self, job: TrainerJob, rank: int, address: str, device: Device) -> None:
        config = job.config
        on = torch.device("cuda", 0) if device == "gpu" else torch.device("cpu")
        if device == "gpu":
            torch.cuda.set_device(on)
        else:
            torch.set_num_threads(1)
        backend = "cpu:gloo,cuda:nccl" if device == "gpu" else "gloo"
        dist.init_process_group(backend, init_method=address, rank=rank, world_size=config.cluster.trainer_ranks)
        sender = _sender(job, on) if rank == 0 and job.transport else None
        self._store = FrameStore.from_config(config.data, config.store_dir)
        self._rank = TrainerRank(config, self._store, job.tokens.forbidden, job.objective, sender, on)

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._rank, method)(*arguments)


def _sender(job: TrainerJob, on: torch.device) -> WeightSender:
    config = job.config
    if job.transport == "nccl":
        from videorl.rollout.vllm_weights import NcclSender

        return NcclSender(node_ip(), config.replicas * config.rollout.tensor_parallel)
    return SharedMemorySender(weights_folder(config), compute_dtype(config.model.dtype, on))


def weights_folder(config: Config) -> Path:
    """Where the run stages its weights in shared memory."""
    digest = hashlib.blake2b(str(config.run.dir).encode(), digest_size=8).hexdigest()
    return shared_memory_root() / f"videorl-weights-{digest}"


class RayTrainer:
    """Implements orchestration's Trainer over rank actors."""

    def __init__(self, job: TrainerJob, actors: list[Any]) -> None:
        self._job = job
        self._config = job.config
        self._actors = actors
        self._turn = asyncio.Lock()

    async def start(self, placement: Placement) -> None:
        loopback, device = placement.loopback, placement.device
        address = await self._all(lambda actor, rank: actor.meet_at.remote(loopback) if rank == 0 else None)
        await self._all(lambda actor, rank: actor.start.remote(self._job, rank, address, device))

    async def update(self, batch: UpdateBatch) -> UpdateReport:
        """Plan, then let all ranks compute. An update without any advantage takes no step."""
        probed = await self._spread("mismatch", batch, (batch.probe,)) if batch.probe else {}
        if batch.groups:
            report: UpdateReport = await self._spread("update", batch, batch.groups)
        else:
            rate = learning_rate(self._config.trainer, batch.step)
            report = UpdateReport(False, "no_advantage", None, rate, 0.0, {}, {}, 0.0)
        return replace(report, metrics={**report.metrics, **probed})

    async def _spread(self, method: str, batch: UpdateBatch, groups: tuple[TrainGroup, ...]) -> Any:
        """`method` of every rank, each with its share of `groups`."""
        plan = plan_micro_batches(groups, len(self._actors), self._config.trainer.token_budget)
        empty = replace(batch, groups=(), probe=None)
        return await self._call(method, lambda rank: (RankUpdate(empty, plan[rank]),))

    async def stage_weights(self, version: int) -> WeightHandle:
        return await self._call("stage_weights", lambda rank: (version,))

    async def send_weights(self, handle: WeightHandle) -> None:
        await self._call("send_weights", lambda rank: (handle,))

    async def release_weights(self, handle: WeightHandle) -> None:
        await self._call("release_weights", lambda rank: (handle,))

    async def save(self, folder: Path) -> None:
        await self._call("save", lambda rank: (folder,))

    async def load(self, folder: Path) -> None:
        await self._call("load", lambda rank: (folder,))

    async def close(self) -> None:
        for actor in self._actors:
            ray.kill(actor)
        shutil.rmtree(weights_folder(self._config), ignore_errors=True)  # a killed sender leaves it

    async def _call(self, method: str, arguments: Callable[[int], tuple[Any, ...]]) -> Any:
        """Rank 0's answer, once every rank has answered."""
        async with self._turn:
            return await self._all(lambda actor, rank: actor.call.remote(method, *arguments(rank)))

    async def _all(self, call: Callable[[Any, int], Any]) -> Any:
        started = [call(actor, rank) for rank, actor in enumerate(self._actors)]
        waiting = {asyncio.ensure_future(_answer(r, rank)): rank for rank, r in enumerate(started) if r is not None}
        # The first fault ends the wait: the other ranks hang in a collective that it will never enter.
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
        return next(task.result() for task, rank in waiting.items() if rank == 0)


async def _answer(ref: Any, rank: int) -> Any:
    try:
        return await ref
    except RayActorError as error:
        raise VideorlError(f"trainer rank {rank}: its process is gone: {str(error).splitlines()[0]}") from None
    except RayTaskError as error:
        raise unwrapped(f"trainer rank {rank}", error) from error


@asynccontextmanager
async def trainer(placement: Placement, job: TrainerJob) -> AsyncIterator[RayTrainer]:
    """Started ranks in the first bundles; ended on leaving."""
    cluster = job.config.cluster
    devices = 0.5 if cluster.share_devices else 1
    actors = [placement.actor(RankActor, rank, devices).remote() for rank in range(cluster.trainer_ranks)]
    front = RayTrainer(job, actors)
    try:
        await front.start(placement)
        yield front
    finally:
        await front.close()
