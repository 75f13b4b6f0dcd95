import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videorl.batching.plan import packed_tokens, plan_micro_batches, split_group
from videorl.types import Branch, TrainGroup


def group(key: str, prompt: int, branches: list[int]) -> TrainGroup:
    def branch(n: int) -> Branch:
        return Branch(np.zeros(n, np.int32), np.zeros(n, np.float32), np.zeros(n, np.int32), 1.0)

    return TrainGroup(key, np.zeros(prompt, np.int32), (), tuple(branch(n) for n in branches))


GROUPS = st.lists(
    st.tuples(st.integers(1, 40), st.lists(st.integers(1, 30), min_size=1, max_size=8)), min_size=1, max_size=20
)


@given(GROUPS, st.integers(1, 5), st.integers(70, 400))
def test_every_branch_is_computed_once_within_the_budget_and_in_equal_numbers(shapes, ranks, budget):
    groups = [group(f"q{i:02d}", prompt, branches) for i, (prompt, branches) in enumerate(shapes)]
    plan = plan_micro_batches(groups, ranks, budget)
    assert len(plan) == ranks
    assert len({len(micro_batches) for micro_batches in plan}) == 1
    rows = [row for micro_batches in plan for row in micro_batches]
    assert all(sum(map(packed_tokens, row)) <= budget for row in rows)
    placed = sorted((part.key, len(b.token_ids)) for row in rows for part in row for b in part.branches)
    assert placed == sorted((g.key, len(b.token_ids)) for g in groups for b in g.branches)


def test_a_group_longer_than_the_budget_repeats_its_prompt_with_some_branches_each():
    parts = list(split_group(group("q", 100, [30, 30, 30, 30]), token_budget=165))
    assert [[len(b.token_ids) for b in part.branches] for part in parts] == [[30, 30], [30, 30]]
    assert all(len(part.prompt_ids) == 100 for part in parts)


def test_ranks_get_rows_of_similar_length():
    groups = [group(f"q{i:02d}", 10, [20 + 5 * i]) for i in range(16)]
    loads = [sum(packed_tokens(g) for row in rows for g in row) for rows in plan_micro_batches(groups, 2, 10_000)]
    assert max(loads) / min(loads) < 1.1


def test_fewer_groups_than_ranks_leave_an_empty_micro_batch_which_is_a_filler():
    plan = plan_micro_batches([group("q", 5, [3])], 3, 100)
    assert sorted(len(rows[0]) for rows in plan) == [0, 0, 1]


def test_the_plan_is_the_same_whenever_it_is_made():
    groups = [group(f"q{i}", 10, [7, 7]) for i in range(9)]
    first, second = (plan_micro_batches(order, 2, 60) for order in (groups, groups[::-1]))
    assert [[[g.key for g in row] for row in rank] for rank in first] == [
        [[g.key for g in row] for row in rank] for rank in second
    ]


def test_a_single_branch_beyond_the_budget_is_kept_whole():
    (part,) = split_group(group("q", 90, [50]), token_budget=100)
    assert packed_tokens(part) == pytest.approx(140)
