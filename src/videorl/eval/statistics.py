"""The statistics of an evaluation: intervals of accuracies, and paired comparison of two evaluations.

A benchmark is a sample of right and wrong answers, so everything here works on counts. Resampling such rows with
replacement is drawing a binomial (or, for pairs, a multinomial) count, which is how the bootstrap is done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

CONFIDENCE = 0.95
_RESAMPLES = 20_000
_SEED = 0  # a report is a function of its predictions


@dataclass(slots=True, frozen=True)
class Interval:
    """A 95 % confidence interval."""

    low: float
    high: float


def wilson(correct: int, rows: int) -> Interval:
    """Wilson's score interval of a proportion (E. B. Wilson, 1927); [0, 1] when there are no rows."""
    if rows == 0:
        return Interval(0.0, 1.0)
    found = binomtest(correct, rows).proportion_ci(confidence_level=CONFIDENCE, method="wilson")
    return Interval(float(found.low), float(found.high))


def macro_interval(counts: Sequence[tuple[int, int]]) -> Interval:
    """Percentile bootstrap of the mean of several accuracies, each given as (correct, rows > 0).

    Rows are resampled within their benchmark, so that a small benchmark weighs as much as a large one.
    """
    rng = np.random.default_rng(_SEED)
    draws = [rng.binomial(rows, correct / rows, _RESAMPLES) / rows for correct, rows in counts]
    return _percentiles(np.mean(draws, axis=0))


@dataclass(slots=True, frozen=True)
class Pairs:
    """The same rows answered twice: by A and by B."""

    both: int
    only_a: int
    only_b: int
    neither: int

    @property
    def rows(self) -> int:
        return self.both + self.only_a + self.only_b + self.neither

    @property
    def difference(self) -> float:
        """Accuracy of B minus accuracy of A."""
        return (self.only_b - self.only_a) / self.rows


def pooled(pairs: Sequence[Pairs]) -> Pairs:
    """All rows of several benchmarks as one."""
    return Pairs(
        sum(p.both for p in pairs),
        sum(p.only_a for p in pairs),
        sum(p.only_b for p in pairs),
        sum(p.neither for p in pairs),
    )


def mcnemar(pairs: Pairs) -> float:
    """Exact two-sided p-value of McNemar's test: are the rows that flipped as likely to flip either way?"""
    flipped = pairs.only_a + pairs.only_b
    return 1.0 if flipped == 0 else float(binomtest(pairs.only_b, flipped, 0.5).pvalue)


def paired_interval(pairs: Pairs) -> Interval:
    """Interval of a paired difference of proportions (R. G. Newcombe, 1998, method 10: square and add, with φ).

    Unlike a bootstrap it keeps its width when no row flipped.
    """
    n = pairs.rows
    a, b = pairs.both + pairs.only_a, pairs.both + pairs.only_b
    of_a, of_b = wilson(a, n), wilson(b, n)
    phi = _correlation(pairs)
    below_b, above_a = b / n - of_b.low, of_a.high - a / n
    above_b, below_a = of_b.high - b / n, a / n - of_a.low
    low = math.sqrt(max(0.0, below_b**2 - 2 * phi * below_b * above_a + above_a**2))
    high = math.sqrt(max(0.0, above_b**2 - 2 * phi * above_b * below_a + below_a**2))
    return Interval(pairs.difference - low, pairs.difference + high)


def _correlation(pairs: Pairs) -> float:
    """φ of the 2×2 table with Newcombe's continuity correction; 0 where a margin is empty."""
    n, a, b = pairs.rows, pairs.both + pairs.only_a, pairs.both + pairs.only_b
    margins = a * (n - a) * b * (n - b)
    if margins == 0:
        return 0.0
    cross = pairs.both * pairs.neither - pairs.only_a * pairs.only_b
    if cross > 0:
        cross = max(cross - n / 2, 0.0)
    return cross / math.sqrt(margins)


def macro_difference_interval(pairs: Sequence[Pairs]) -> Interval:
    """Percentile bootstrap of the mean of several paired differences; pairs are resampled within their benchmark."""
    rng = np.random.default_rng(_SEED)
    draws = []
    for p in pairs:
        shares = np.array([p.only_a, p.both + p.neither, p.only_b]) / p.rows
        lost, _, won = rng.multinomial(p.rows, shares, _RESAMPLES).T
        draws.append((won - lost) / p.rows)
    return _percentiles(np.mean(draws, axis=0))


def _percentiles(values: np.ndarray) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return Interval(float(low), float(high))
