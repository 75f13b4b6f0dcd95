"""Trainer ranks in this process (one) or in processes of their own (several), over gloo on loopback."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from builders_train import FramesInMemory
from videorl.batching.plan import MicroBatch
from videorl.config import Config
from videorl.data.tokens import TokenRules
from videorl.rollout.weights import SharedMemorySender
from videorl.train.objective import PolicyObjective
from videorl.train.parallelize import full_tensors
from videorl.train.rank import RankUpdate, TrainerRank
from videorl.types import UpdateBatch

CPU = torch.device("cpu")


class ObservedRank(TrainerRank):
    """A rank whose gradients can be read before its optimizer takes them."""

    def gradients(self, batch: UpdateBatch, micro_batches: Sequence[MicroBatch]) -> dict[str, torch.Tensor]:
        seen: dict[str, torch.Tensor] = {}
        take_step = self.optimizer.step

        def look(step: int) -> tuple[float, bool]:
            for name, parameter in self.policy.model.named_parameters():
                if parameter.grad is not None:
                    seen[name] = parameter.grad.full_tensor().clone()
            return take_step(step)

        self.optimizer.step = look
        self.report = self.update(RankUpdate(batch, micro_batches))
        self.optimizer.step = take_step
        return seen

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in full_tensors(self.policy.model)}


@contextmanager
def single_rank(config: Config, source: FramesInMemory, device: torch.device = CPU) -> Iterator[ObservedRank]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _rank(0, 1, Path(folder), config, source, device)


def _rank(
    rank: int, ranks: int, folder: Path, config: Config, source: FramesInMemory, device: torch.device = CPU
) -> Iterator[ObservedRank]:
    torch.set_num_threads(1)
    folder.mkdir(exist_ok=True)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
    sender = SharedMemorySender(folder / f"weights-{rank}", torch.float32)
    forbidden = TokenRules.of_model(config.model.path).forbidden
    objective = PolicyObjective(config.algo, config.rollout.temperature)
    try:
        yield ObservedRank(config, source, forbidden, objective, sender, device)
    finally:
        dist.destroy_process_group()


@dataclass(slots=True, frozen=True)
class Job:
    """One update on fresh ranks: `plan[rank]` are a rank's micro-batches; a checkpoint is written into `save`."""

    config: Config
    batch: UpdateBatch
    plan: Sequence[Sequence[MicroBatch]]
    save: Path | None = None


def run_ranks(source: FramesInMemory, jobs: Sequence[Job]) -> list[dict[str, torch.Tensor]]:
    """The whole gradient of each job's update, in processes of their own, one for each rank.

    The processes are forked from a server that has done the imports.
    """
    multiprocessing.set_forkserver_preload(["videorl.train.rank", "videorl.model.qwen3_vl"])
    ranks = len(jobs[0].plan)
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(_run, (ranks, Path(folder), source, jobs), nprocs=ranks, start_method="forkserver")
        return [torch.load(Path(folder) / f"{i}.pt", weights_only=True) for i in range(len(jobs))]


def _run(rank: int, ranks: int, folder: Path, source: FramesInMemory, jobs: Sequence[Job]) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    for i, job in enumerate(jobs):
        for trainer in _rank(rank, ranks, folder / str(i), job.config, source):
            gradients = trainer.gradients(job.batch, job.plan[rank])
            if job.save is not None:
                trainer.save(job.save)
            if rank == 0:
                torch.save(gradients, folder / f"{i}.pt")
