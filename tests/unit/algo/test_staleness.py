from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from videorl.algo.staleness import all_in_time, lag, may_issue


def test_lag_counts_the_publications_since_the_oldest_token() -> None:
    assert [lag(version=7, oldest=o) for o in (7, 6, 4)] == [0, 1, 3]


def test_nothing_is_issued_at_the_bound() -> None:
    assert may_issue(outstanding=10, bound=11, untrained=0, trainable=None)
    assert not may_issue(outstanding=11, bound=11, untrained=0, trainable=None)


def test_nothing_is_issued_that_the_last_steps_cannot_take() -> None:
    assert may_issue(outstanding=3, bound=11, untrained=3, trainable=4)
    assert not may_issue(outstanding=4, bound=11, untrained=4, trainable=4)


def test_a_group_that_is_due_now_needs_a_place_in_this_fit_step() -> None:
    assert all_in_time([3], version=5, slots=1, groups_per_step=4, max_lag=2)
    assert not all_in_time([3], version=5, slots=0, groups_per_step=4, max_lag=2)


def test_more_groups_due_in_the_next_step_than_it_can_take_have_to_begin_in_this_one() -> None:
    assert all_in_time([4] * 4, version=5, slots=0, groups_per_step=4, max_lag=2)
    assert not all_in_time([4] * 5, version=5, slots=0, groups_per_step=4, max_lag=2)
    assert all_in_time([4] * 5, version=5, slots=1, groups_per_step=4, max_lag=2)


@given(
    oldest=st.lists(st.integers(0, 5), max_size=14),
    slots=st.integers(0, 4),
    groups_per_step=st.integers(1, 4),
    max_lag=st.integers(0, 4),
)
def test_it_says_what_training_the_oldest_first_would_show(
    oldest: list[int], slots: int, groups_per_step: int, max_lag: int
) -> None:
    version = 5
    assert all_in_time(oldest, version, slots, groups_per_step, max_lag) == _played_out(
        oldest, version, slots, groups_per_step, max_lag
    )


def _played_out(oldest: list[int], version: int, slots: int, groups_per_step: int, max_lag: int) -> bool:
    """Train the oldest ones until none is left, one fit step after the other."""
    waiting, places = sorted(oldest), Counter({version: slots})
    while waiting:
        for _ in range(places.get(version, groups_per_step)):
            if waiting and version - waiting.pop(0) > max_lag:
                return False
        version += 1
    return True
