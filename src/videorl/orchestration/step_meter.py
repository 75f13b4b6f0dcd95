"""What one fit step was like: a line of metrics.jsonl.

The step lasts from the record of the step before it to its own. Shares of time are shares of that:
`idle/trainer` is the time the trainer waited for groups, `idle/rollout` the time in which no engine had a request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from videorl.types import DropReason, Group, Score, StepRecord, UpdateReport

Metrics = dict[str, float | int | None]


@dataclass(slots=True)
class StepMeter:
    """Collects while the step goes on; times in seconds."""

    began: float  # on the event loop's clock
    lags: list[int] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)  # trained ones
    flat: int = 0  # trained groups without any advantage
    reports: list[UpdateReport] = field(default_factory=list)
    drops: Counter[DropReason] = field(default_factory=Counter)
    questions_dropped: int = 0
    sampled_tokens: int = 0  # of groups that finished in this step
    waited: float = 0.0
    updating: float = 0.0
    publishing: float = 0.0
    checkpointing: float = 0.0

    def finished(self, group: Group) -> None:
        self.sampled_tokens += sum(len(r.rollout.token_ids) for r in group.responses)
        self.drops.update(r.drop.reason for r in group.responses if r.drop)

    def question_dropped(self, reason: DropReason) -> None:
        self.questions_dropped += 1
        self.drops[reason] += 1

    def trained(
        self, groups: Sequence[Group], lags: Sequence[int], flat: int, report: UpdateReport, seconds: float
    ) -> None:
        """`groups` stood in an update with these lags; `flat` of them had no advantage."""
        self.groups.extend(groups)
        self.lags.extend(lags)
        self.flat += flat
        self.reports.append(report)
        self.updating += seconds

    def record(self, step: int, version: int, now: float, idle_rollout: float, peak: int) -> StepRecord:
        """`version` is the one that the step published."""
        seconds = max(now - self.began, 1e-9)
        metrics: Metrics = {
            **_rewards(self.groups),
            **_lengths(self.groups),
            "lag/mean": _mean(self.lags),
            "lag/max": max(self.lags, default=None),
            "groups/trained": len(self.groups),
            "groups/zero_advantage": self.flat,
            "groups/mixed_versions": sum(_versions(group) > 1 for group in self.groups),
            "outstanding/max": peak,
            **_updates(self.reports),
            "dropped/questions": self.questions_dropped,
            **{f"dropped/{reason.value}": count for reason, count in sorted(self.drops.items())},
            "idle/trainer": self.waited / seconds,
            "idle/rollout": idle_rollout / seconds,
            "rollout/tokens": self.sampled_tokens,
            "rollout/tokens_per_second": self.sampled_tokens / seconds,
            "rollout/group_seconds": _mean([group.seconds for group in self.groups]),
            "timing/step": seconds,
            "timing/wait": self.waited,
            "timing/update": self.updating,
            "timing/publish": self.publishing,
            "timing/checkpoint": self.checkpointing,
        }
        return StepRecord(step, version, metrics)


def _rewards(groups: Iterable[Group]) -> Metrics:
    scores: list[Score] = [r.score for group in groups for r in group.responses if r.score]
    return {
        "reward/mean": _mean([s.score for s in scores]),
        "reward/accuracy": _mean([s.accuracy for s in scores]),
        "reward/format": _mean([s.format for s in scores]),
    }


def _lengths(groups: Iterable[Group]) -> Metrics:
    rollouts = [r.rollout for group in groups for r in group.responses if r.score]
    lengths = [len(rollout.token_ids) for rollout in rollouts]
    return {
        "response/length": _mean(lengths),
        "response/length_max": max(lengths, default=None),
        "response/truncated": _mean([float(rollout.finish_reason == "length") for rollout in rollouts]),
    }


def _updates(reports: Sequence[UpdateReport]) -> Metrics:
    stepped = [report for report in reports if report.stepped]
    return {
        "updates/stepped": len(stepped),
        "updates/no_advantage": sum(report.skipped == "no_advantage" for report in reports),
        "updates/nonfinite_gradient": sum(report.skipped == "nonfinite_gradient" for report in reports),
        "loss": _mean([report.loss for report in stepped]),
        "grad_norm": _mean([report.grad_norm for report in stepped if report.grad_norm is not None]),
        "lr": reports[-1].lr if reports else None,
        **_combined([report.metrics for report in reports]),
        **{f"train/{name}": sum(r.counts.get(name, 0) for r in reports) for name in _names(r.counts for r in reports)},
    }


def _combined(metrics: Sequence[Mapping[str, float]]) -> Metrics:
    """The trainer's metrics over the updates that report them: maxima and minima stay such, the rest is averaged."""
    combined: Metrics = {}
    for name in _names(metrics):
        values = [m[name] for m in metrics if name in m]
        fold = max if name.endswith("max") else min if name.endswith("min") else _mean
        combined[name] = fold(values)
    return combined


def _names(mappings: Iterable[Mapping[str, float]] | Iterable[Mapping[str, int]]) -> list[str]:
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _versions(group: Group) -> int:
    return len({int(v) for r in group.responses for v in r.rollout.versions})


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
