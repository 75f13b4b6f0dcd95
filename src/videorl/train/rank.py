"""One FSDP2 rank of the trainer: forward, backward and optimizer step over its micro-batches.

All ranks run the same calls in the same order with the same number of micro-batches; an empty one is a filler row, so
that every rank enters every module. Collectives: FSDP's own, and one small reduction at the end of an update.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Int

from videorl.batching.plan import MicroBatch
from videorl.batching.row import PackedRow, pack
from videorl.config.schema import Config
from videorl.data.source import FrameSource
from videorl.errors import QuestionDropped
from videorl.model.attention import attention_kind
from videorl.model.families import open_family
from videorl.model.family import VideoInputs
from videorl.model.policy import Policy
from videorl.rollout.weights import WeightSender
from videorl.train.checkpoint import load_trainer, save_trainer
from videorl.train.hf_folder import save_hf
from videorl.train.objective import Objective
from videorl.train.optimizer import Optimizer, learning_rate
from videorl.train.parallelize import full_tensors, load_weights, shard
from videorl.train.totals import UpdateTotals
from videorl.types import Branch, TrainGroup, UpdateBatch, UpdateReport, WeightHandle


@dataclass(slots=True, frozen=True)
class RankUpdate:
    """One rank's share of an update, made by the trainer's front: as many micro-batches as every other rank has."""

    batch: UpdateBatch  # without its groups
    micro_batches: Sequence[MicroBatch]


class TrainerRank:
    """Holds the sharded policy and its optimizer. Needs an initialised default process group.

    One rank has the sender; the others only take part in gathering what it sends.
    """

    def __init__(
        self,
        config: Config,
        source: FrameSource,
        forbidden: Int[np.ndarray, "K"],
        objective: Objective,
        sender: WeightSender | None,
        device: torch.device,
    ) -> None:
        torch.manual_seed(config.run.seed)
        self.config = config
        self.device = device
        self.source = source
        self.objective = objective
        self.sender = sender
        self.dtype = compute_dtype(config.model.dtype, device)
        self.family = open_family(config.model.family, config.model.path)
        self.policy = Policy(
            self.family.build(config.model.path),
            self.family,
            attention_kind(config.model.attention, device),
            objective.temperature,
            torch.tensor(forbidden, dtype=torch.long),
            config.trainer.logprob_chunk,
        )
        if config.model.freeze_vision:
            self.family.vision(self.policy.model).requires_grad_(False)
        shard(self.policy, device, self.dtype, config.trainer.activation_checkpointing)
        load_weights(self.policy.model, config.model.path)
        self.optimizer = Optimizer(self.policy, config.trainer)
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="rows")

    def update(self, work: RankUpdate) -> UpdateReport:
        """Forward and backward over the micro-batches, then one optimizer step."""
        started = time.monotonic()
        batch = work.batch
        totals = UpdateTotals()
        for prepared in self._prepared(work):
            logprobs, entropy = self.policy(prepared.row, prepared.videos)
            loss, metrics = self.objective.loss(logprobs, entropy, prepared.row, batch.denominator)
            # A filler's gradient is zero, but it must flow: the other ranks reduce theirs with it.
            (loss if prepared.groups else loss * 0).backward()
            totals.add(prepared.groups, prepared.row, prepared.lost, metrics)
        norm, stepped = self.optimizer.step(batch.step)
        metrics, counts = totals.reduced(self.device)
        return UpdateReport(
            stepped=stepped,
            skipped="" if stepped else "nonfinite_gradient",
            grad_norm=norm,
            lr=learning_rate(self.config.trainer, batch.step),
            loss=metrics.pop("loss"),
            metrics=metrics,
            counts=counts,
            seconds=time.monotonic() - started,
        )

    @torch.no_grad()
    def mismatch(self, work: RankUpdate) -> dict[str, float]:
        """How far engine and trainer differ on tokens sampled under the present weights, at most, over all ranks."""
        largest = torch.tensor(0.0, dtype=torch.float64, device=self.device)
        for prepared in self._prepared(work):
            logprobs, _ = self.policy(prepared.row, prepared.videos)
            difference = (logprobs - prepared.row.old_logprobs).abs()[prepared.row.fresh]
            if len(difference):
                largest = torch.maximum(largest, difference.max().double())
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return {"logprob/max_diff": largest.item()}

    @torch.no_grad()
    def logprobs(self, micro_batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        """log π of every response token of each micro-batch, in its order, under the present weights."""
        empty = UpdateBatch(step=0, index=0, version=0, groups=(), denominator=1)
        rows = self._prepared(RankUpdate(empty, micro_batches))
        return [self.policy(p.row, p.videos)[0].cpu().numpy() for p in rows]

    # ── weights and checkpoints: collectives, so all ranks call them ─────────────────────────────────────────────

    def stage_weights(self, version: int) -> WeightHandle | None:
        """Hand every trained parameter, whole, to the sender; the rank that has it returns the handle."""
        tensors = full_tensors(self.policy.model, trained_only=True)
        if self.sender is not None:
            return self.sender.stage(version, tensors)
        for _ in tensors:
            pass
        return None

    def send_weights(self, handle: WeightHandle) -> None:
        if self.sender is not None:
            self.sender.send(handle)

    def release_weights(self, handle: WeightHandle) -> None:
        if self.sender is not None:
            self.sender.release(handle)

    def save(self, folder: Path) -> None:
        save_trainer(folder / "trainer", self.policy.model, self.optimizer.adamw)
        save_hf(folder / "hf", self.policy.model, self.config.model.path, self.dtype)

    def load(self, folder: Path) -> None:
        load_trainer(folder / "trainer", self.policy.model, self.optimizer.adamw)

    # ── preparing rows ───────────────────────────────────────────────────────────────────────────────────────────

    def _prepared(self, work: RankUpdate) -> Iterator[_Prepared]:
        """Rows in order, the next one's frames read in a thread while this one is computed."""
        ahead: list[Future[_Prepared]] = []
        for micro in work.micro_batches:
            ahead.append(self._loader.submit(self._prepare, micro, work.batch))
            if len(ahead) > 1:
                yield ahead.pop(0).result().to(self.device)
        for future in ahead:
            yield future.result().to(self.device)

    def _prepare(self, micro: MicroBatch, batch: UpdateBatch) -> _Prepared:
        groups, frames, lost = [], [], 0
        for group in micro:
            try:
                frames.append([self.source.load(ref) for ref in group.frames])
                groups.append(group)
            except QuestionDropped:
                lost += 1
        filler_ids, filler_frames = self.family.filler()
        videos = self.family.video_inputs([f for per_group in frames for f in per_group] or [filler_frames])
        if not groups:
            zeros = np.zeros(1)
            branch = Branch(filler_ids[-1:].int().numpy(), zeros.astype(np.float32), zeros.astype(np.int32) - 1, 0.0)
            filler = TrainGroup("filler", filler_ids.int().numpy(), (), (branch,))
            positions = [self.family.prompt_positions(filler_ids, videos.grid)]
            return _Prepared((), pack([filler], positions, None), videos, lost)
        positions, at = [], 0
        for group, own in zip(groups, frames, strict=True):
            ids = torch.from_numpy(group.prompt_ids).long()
            positions.append(self.family.prompt_positions(ids, videos.grid[at : at + len(own)]))
            at += len(own)
        # After the update's first optimizer step no weights are the ones that anything was sampled under.
        fresh_version = batch.version if batch.index == 0 else None
        return _Prepared(tuple(groups), pack(groups, positions, fresh_version), videos, lost)


@dataclass(slots=True, frozen=True)
class _Prepared:
    """A row ready to compute. `groups` is empty for a filler; `lost` groups had no frames any more."""

    groups: MicroBatch
    row: PackedRow
    videos: VideoInputs
    lost: int

    def to(self, device: torch.device) -> _Prepared:
        videos = VideoInputs(self.videos.patches.to(device), self.videos.grid.to(device))
        return replace(self, row=self.row.to(device), videos=videos)


def compute_dtype(setting: str, device: torch.device) -> torch.dtype:
    """`model.dtype` resolved for a device."""
    if setting == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return getattr(torch, setting)
