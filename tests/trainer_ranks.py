"""Trainer ranks in this process (one) or in processes of their own (several), over gloo on loopback."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
    sender = SharedMemorySender(folder / f"weights-{rank}", torch.float32)
    forbidden = TokenRules.of_model(config.model.path).forbidden
    objective = PolicyObjective(config.algo, config.rollout.temperature)
    try:
        yield ObservedRank(config, source, forbidden, objective, sender, device)
    finally:
        dist.destroy_process_group()


def run_ranks(
    ranks: int,
    config: Config,
    source: FramesInMemory,
    batch: UpdateBatch,
    plan: Sequence[Sequence[MicroBatch]],
    save: Path | None = None,
) -> dict[str, torch.Tensor]:
    """The whole gradient of one update on `ranks` processes, which then write a checkpoint into `save`."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_run, (ranks, Path(folder), config, source, batch, plan, save), nprocs=ranks)
        return torch.load(Path(folder) / "gradients.pt", weights_only=True)


def _run(
    rank: int,
    ranks: int,
    folder: Path,
    config: Config,
    source: FramesInMemory,
    batch: UpdateBatch,
    plan: Sequence[Sequence[MicroBatch]],
    save: Path | None,
) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    for trainer in _rank(rank, ranks, folder, config, source):
        gradients = trainer.gradients(batch, plan[rank])
        if save is not None:
            trainer.save(save)
        if rank == 0:
            torch.save(gradients, folder / "gradients.pt")
