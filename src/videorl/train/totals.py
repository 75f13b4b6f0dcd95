"""What an update adds up over its rows, and over the ranks at its end."""

from __future__ import annotations

import torch
import torch.distributed as dist

from videorl.algo.loss import TokenMetrics
from videorl.batching.plan import MicroBatch
from videorl.batching.row import PackedRow


class UpdateTotals:
    """Sums, maxima and counts of one update on one rank, then over all of them."""

    RATIO_SUMS = ("mean", "clip_high", "clip_low", "dual_clip")
    SUMS = ("loss", "tokens", "entropy", "kl", *RATIO_SUMS)
    MAXIMA = ("diff", "fresh_diff")
    COUNTS = ("forwards", "vision_passes", "packed_tokens", "separate_tokens", "response_tokens", "groups_lost")

    def __init__(self) -> None:
        self.sums: dict[str, float] = dict.fromkeys((*self.SUMS, *self.COUNTS), 0.0)
        # Differences are never negative: -1 is "none seen".
        self.maxima: dict[str, float] = dict.fromkeys(self.MAXIMA, -1.0)

    def add(self, groups: MicroBatch, row: PackedRow, lost: int, metrics: TokenMetrics) -> None:
        """One forward. `groups` is empty for a filler, which counts as nothing else."""
        self.sums["forwards"] += 1
        self.sums["groups_lost"] += lost
        if not groups:
            return
        self.sums["packed_tokens"] += row.layout.tokens
        self.sums["response_tokens"] += len(row.targets)
        for group in groups:
            self.sums["vision_passes"] += len(group.frames)
            self.sums["separate_tokens"] += len(group.prompt_ids) * len(group.branches) + group.response_tokens
        for name, value in metrics.sums.items():
            self.sums[name] += value
        for name, value in metrics.maxima.items():
            self.maxima[name] = max(self.maxima[name], value)

    def reduced(self, device: torch.device) -> tuple[dict[str, float], dict[str, int]]:
        """Metrics (means over tokens, maxima) and counts over all ranks; equal on every rank."""
        sums = torch.tensor(list(self.sums.values()), dtype=torch.float64, device=device)
        maxima = torch.tensor(list(self.maxima.values()), dtype=torch.float64, device=device)
        dist.all_reduce(sums)
        dist.all_reduce(maxima, dist.ReduceOp.MAX)
        total = dict(zip(self.sums, sums.tolist(), strict=True))
        largest = dict(zip(self.maxima, maxima.tolist(), strict=True))
        tokens = max(total["tokens"], 1.0)
        metrics = {"loss": total["loss"], "entropy": total["entropy"] / tokens}
        if largest["diff"] >= 0:  # a policy loss: there are old log-probs
            metrics |= {f"ratio/{name}": total[name] / tokens for name in self.RATIO_SUMS}
            metrics |= {"logprob/kl": total["kl"] / tokens, "logprob/stale_max_diff": largest["diff"]}
        if largest["fresh_diff"] >= 0:
            metrics["logprob/max_diff"] = largest["fresh_diff"]
        return metrics, {name: int(total[name]) for name in self.COUNTS}
