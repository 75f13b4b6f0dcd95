"""Scored groups → what one optimizer step computes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from videorl.monitor.recorder import Advantages
from videorl.types import Branch, Group, TrainGroup, UpdateBatch


def update_batch(step: int, index: int, version: int, groups: Sequence[Group], advantages: Advantages) -> UpdateBatch:
    """The update's groups that have any advantage, and the response tokens of all of them as the denominator."""
    prepared = [train_group(group, advantages) for group in groups]
    computed = tuple(group for group in prepared if any(branch.advantage for branch in group.branches))
    # Only before the fit step's first optimizer step are there tokens of the very weights that the trainer holds.
    fresh = [group for group in prepared if _holds(group, version)] if index == 0 else []
    return UpdateBatch(
        step=step,
        index=index,
        version=version,
        groups=computed,
        denominator=sum(group.response_tokens for group in prepared),
        probe=fresh[0] if fresh and not any(_holds(group, version) for group in computed) else None,
    )


def _holds(group: TrainGroup, version: int) -> bool:
    return any((branch.versions == version).any() for branch in group.branches)


def train_group(group: Group, advantages: Advantages) -> TrainGroup:
    """A group's scored responses with their advantages. A dropped response enters nothing."""
    scored = [response for response in group.responses if response.score is not None]
    worth = advantages(np.array([response.score.score for response in scored if response.score], dtype=np.float64))
    return TrainGroup(
        key=group.issued.key,
        prompt_ids=group.prompt.token_ids,
        frames=group.prompt.frames,
        branches=tuple(
            Branch(r.rollout.token_ids, r.rollout.logprobs, r.rollout.versions, float(advantage))
            for r, advantage in zip(scored, worth, strict=True)
            if len(r.rollout.token_ids)  # nothing was sampled: its score counts, but there is no token to train
        ),
    )
