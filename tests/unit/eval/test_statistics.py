"""Intervals and tests against values computed another way."""

from math import comb, sqrt

import numpy as np
import pytest

from videorl.eval.statistics import (
    Pairs,
    macro_difference_interval,
    macro_interval,
    mcnemar,
    paired_interval,
    pooled,
    wilson,
)


@pytest.mark.parametrize(("correct", "rows"), [(0, 10), (3, 10), (10, 10), (1777, 2700)])
def test_wilson_is_the_textbook_formula(correct: int, rows: int) -> None:
    z, p = 1.959963984540054, correct / rows
    centre = (p + z * z / (2 * rows)) / (1 + z * z / rows)
    half = z / (1 + z * z / rows) * sqrt(p * (1 - p) / rows + z * z / (4 * rows * rows))
    found = wilson(correct, rows)
    assert found.low == pytest.approx(max(0.0, centre - half), abs=1e-9)
    assert found.high == pytest.approx(min(1.0, centre + half), abs=1e-9)


def test_wilson_of_no_rows_knows_nothing() -> None:
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)


def test_the_macro_interval_agrees_with_resampling_rows_one_by_one() -> None:
    counts = [(60, 100), (20, 80), (45, 50)]
    rng = np.random.default_rng(1)
    rows = [np.repeat([1.0, 0.0], [c, n - c]) for c, n in counts]
    draws = [np.mean([rng.choice(r, len(r)).mean() for r in rows]) for _ in range(4000)]
    found = macro_interval(counts)
    assert found.low == pytest.approx(np.quantile(draws, 0.025), abs=0.005)
    assert found.high == pytest.approx(np.quantile(draws, 0.975), abs=0.005)


def test_the_macro_interval_is_a_function_of_its_counts() -> None:
    assert macro_interval([(3, 7), (5, 9)]) == macro_interval([(3, 7), (5, 9)])


def test_mcnemar_is_the_two_sided_binomial_tail() -> None:
    pairs = Pairs(both=30, only_a=2, only_b=11, neither=7)
    tail = sum(comb(13, k) for k in range(3)) / 2**13
    assert mcnemar(pairs) == pytest.approx(2 * tail)


def test_nothing_flipped_is_no_evidence() -> None:
    assert mcnemar(Pairs(5, 0, 0, 5)) == 1.0


def test_the_paired_interval_keeps_its_width_when_nothing_flipped() -> None:
    found = paired_interval(Pairs(both=6, only_a=0, only_b=0, neither=4))
    assert found.low < 0 < found.high


def test_the_paired_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    shares = np.array([0.4, 0.1, 0.2, 0.3])  # both, only A, only B, neither: a true difference of 0.1
    drawn = rng.multinomial(60, shares, 2000)
    covered = [i.low <= 0.1 <= i.high for i in (paired_interval(Pairs(*map(int, counts))) for counts in drawn)]
    assert 0.93 <= np.mean(covered) <= 0.985


def test_pairing_narrows_the_interval_of_rows_that_agree() -> None:
    agreeing = paired_interval(Pairs(both=50, only_a=2, only_b=6, neither=42))
    crossing = paired_interval(Pairs(both=24, only_a=28, only_b=32, neither=16))
    assert agreeing.high - agreeing.low < crossing.high - crossing.low


def test_the_macro_difference_interval_agrees_with_resampling_pairs_one_by_one() -> None:
    tables = [Pairs(20, 5, 15, 10), Pairs(8, 4, 3, 15)]
    rng = np.random.default_rng(3)
    rows = [np.repeat([0.0, -1.0, 1.0], [p.both + p.neither, p.only_a, p.only_b]) for p in tables]
    draws = [np.mean([rng.choice(r, len(r)).mean() for r in rows]) for _ in range(4000)]
    found = macro_difference_interval(tables)
    assert found.low == pytest.approx(np.quantile(draws, 0.025), abs=0.01)
    assert found.high == pytest.approx(np.quantile(draws, 0.975), abs=0.01)


def test_pooling_adds_the_tables() -> None:
    assert pooled([Pairs(1, 2, 3, 4), Pairs(5, 6, 7, 8)]) == Pairs(6, 8, 10, 12)
