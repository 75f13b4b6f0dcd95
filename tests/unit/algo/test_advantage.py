from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videorl.algo.advantage import advantages

SCORES = st.lists(st.floats(-10, 10), min_size=2, max_size=16)


@given(SCORES)
def test_it_is_the_distance_from_the_mean_in_unbiased_deviations(scores: list[float]) -> None:
    found = advantages(np.array(scores))
    if len(set(scores)) == 1:
        assert found.tolist() == [0.0] * len(scores)
        return
    mean, deviation = statistics.fmean(scores), statistics.stdev(scores)
    assert found == pytest.approx([(s - mean) / (deviation + 1e-6) for s in scores], rel=1e-6, abs=1e-7)


def test_one_right_answer_of_four() -> None:
    assert advantages(np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx([1.5, -0.5, -0.5, -0.5], abs=1e-5)


@pytest.mark.parametrize("count", range(2, 65))
def test_equal_scores_give_exactly_nothing_although_their_mean_may_differ(count: int) -> None:
    assert advantages(np.full(count, 0.1)).tolist() == [0.0] * count


@pytest.mark.parametrize("scores", [[], [0.7]])
def test_fewer_than_two_responses_give_nothing(scores: list[float]) -> None:
    assert advantages(np.array(scores, dtype=np.float64)).tolist() == [0.0] * len(scores)
