"""Predictions → what is known about a model.

Accuracy is over ALL rows: a row that failed or gave no answer is wrong, and is counted apart. A report with a failed
row is incomplete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from videorl.eval.predictions import Prediction
from videorl.eval.statistics import Interval, macro_interval, wilson

_EXAMPLES = 20  # failed rows that a report names; predictions.jsonl has all


@dataclass(slots=True, frozen=True)
class Share:
    """Right answers among the rows of one category."""

    rows: int
    correct: int


@dataclass(slots=True, frozen=True)
class BenchmarkReport:
    """One benchmark's column."""

    rows: int
    correct: int
    failed: int  # rows without a response: a broken video, a dead replica, a row that could not be read
    no_answer: int  # responses from which no single offered letter can be read
    accuracy: float
    interval: Interval
    format_rate: float  # over all rows
    mean_length: float  # response tokens, over the rows that have a response
    by: Mapping[str, Mapping[str, Share]]
    failures: Mapping[str, int] = field(default_factory=dict)  # by reason
    examples: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()  # what the benchmark's own filters left out, in words


@dataclass(slots=True, frozen=True)
class Report:
    """An evaluation. `probes` holds the same benchmarks under --blind, --shuffle-frames and --permute-options."""

    model: str
    key: str
    weights: str
    settings: Mapping[str, Any]
    benchmarks: Mapping[str, BenchmarkReport]
    macro_mean: float
    macro_interval: Interval
    complete: bool
    probes: Mapping[str, Mapping[str, BenchmarkReport]] = field(default_factory=dict)


def report_benchmark(predictions: Sequence[Prediction], filters: Sequence[str] = ()) -> BenchmarkReport:
    """Count one benchmark's rows (at least one)."""
    answered = [p for p in predictions if not p.failed]
    failed = [p for p in predictions if p.failed]
    correct = sum(p.correct for p in predictions)
    return BenchmarkReport(
        rows=len(predictions),
        correct=correct,
        failed=len(failed),
        no_answer=sum(p.choice is None for p in answered),
        accuracy=correct / len(predictions),
        interval=wilson(correct, len(predictions)),
        format_rate=sum(p.format == 1.0 for p in predictions) / len(predictions),
        mean_length=sum(p.tokens for p in answered) / len(answered) if answered else 0.0,
        by=_by_category(predictions),
        failures=dict(Counter(str(p.error).partition(":")[0] for p in failed).most_common()),
        examples=tuple(f"{p.id}: {p.error}" for p in failed[:_EXAMPLES]),
        filters=tuple(filters),
    )


def build_report(
    model: str,
    key: str,
    weights: str,
    settings: Mapping[str, Any],
    benchmarks: Mapping[str, BenchmarkReport],
    probes: Mapping[str, Mapping[str, BenchmarkReport]],
    *,
    finished: bool = True,
) -> Report:
    """Put the columns (at least one) together. `finished`: every column that was asked for is there."""
    columns = [*benchmarks.values(), *(column for probe in probes.values() for column in probe.values())]
    return Report(
        model=model,
        key=key,
        weights=weights,
        settings=settings,
        benchmarks=benchmarks,
        macro_mean=macro_mean(benchmarks),
        macro_interval=macro_interval([(b.correct, b.rows) for b in benchmarks.values()]),
        complete=finished and all(column.failed == 0 for column in columns),
        probes=probes,
    )


def macro_mean(benchmarks: Mapping[str, BenchmarkReport]) -> float:
    """The mean of the benchmarks' accuracies, each weighing the same."""
    return sum(b.accuracy for b in benchmarks.values()) / len(benchmarks)


def _by_category(predictions: Sequence[Prediction]) -> dict[str, dict[str, Share]]:
    names = sorted({name for p in predictions for name in p.categories})
    table: dict[str, dict[str, Share]] = {}
    for name in names:
        rows = Counter(p.categories[name] for p in predictions if name in p.categories)
        correct = Counter(p.categories[name] for p in predictions if name in p.categories and p.correct)
        table[name] = {value: Share(rows[value], correct[value]) for value in sorted(rows)}
    return table
