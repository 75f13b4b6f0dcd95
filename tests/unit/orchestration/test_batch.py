from __future__ import annotations

import pytest

from builders_orchestration import group
from videorl.algo.advantage import advantages
from videorl.orchestration.batch import train_group, update_batch


def test_a_dropped_response_enters_nothing() -> None:
    made = train_group(group(0, scores=(1.0, None, 0.0)), advantages)
    assert [b.advantage for b in made.branches] == pytest.approx([0.7071, -0.7071], abs=1e-4)
    assert made.response_tokens == 4


def test_groups_without_advantage_count_in_the_denominator_only() -> None:
    batch = update_batch(3, 1, 2, [group(0), group(1, scores=(1.0, 1.0)), group(2, scores=(0.5,))], advantages)
    assert [g.key for g in batch.groups] == ["0:toy/0"]
    assert batch.denominator == 4 + 4 + 2
    assert (batch.step, batch.index, batch.version) == (3, 1, 2)


def test_a_response_without_tokens_counts_with_its_score_but_is_no_branch() -> None:
    empty, full = group(0, scores=(0.0,), versions=()), group(0, scores=(1.0,))
    both = train_group(
        type(full)(full.issued, full.prompt, (*empty.responses, *full.responses), issued_version=0, seconds=1.0),
        advantages,
    )
    assert [b.advantage for b in both.branches] == pytest.approx([0.7071], abs=1e-4)


def test_a_group_without_advantage_is_the_probe_where_no_other_holds_tokens_of_the_present_weights() -> None:
    old, level = group(0, versions=(1, 1)), group(1, scores=(1.0, 1.0), versions=(1, 2))
    probed = update_batch(3, 0, 2, [old, level], advantages)
    assert [g.key for g in probed.groups] == ["0:toy/0"]
    assert probed.probe is not None
    assert probed.probe.key == "0:toy/1"
    assert update_batch(3, 1, 2, [old, level], advantages).probe is None
    assert update_batch(3, 0, 2, [group(0, versions=(2, 2)), level], advantages).probe is None
    assert update_batch(3, 0, 3, [old, level], advantages).probe is None
