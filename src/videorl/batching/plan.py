"""Groups of an update → micro-batches for every rank, equal in number and near equal in size.

A micro-batch is one packed row on one rank. FSDP's collectives require that all ranks run the same number of forwards,
so a rank may get an empty micro-batch, for which it runs a filler row.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace

from videorl.types import TrainGroup

MicroBatch = tuple[TrainGroup, ...]


def packed_tokens(group: TrainGroup) -> int:
    """Length of the group in a packed row: its prompt once and all its branches."""
    return len(group.prompt_ids) + group.response_tokens


def plan_micro_batches(groups: Sequence[TrainGroup], ranks: int, token_budget: int) -> list[list[MicroBatch]]:
    """For each rank its micro-batches, all ranks the same number, no row longer than `token_budget` tokens.

    The fewest forwards that fit, filled longest first into the emptiest row. The loss does not depend on the plan.
    Deterministic in its arguments.
    """
    parts = [part for group in groups for part in split_group(group, token_budget)]
    parts.sort(key=lambda part: (-packed_tokens(part), part.key))
    forwards = 1
    while (rows := _fill(parts, forwards * ranks, token_budget)) is None:
        forwards += 1
    rows.sort(key=lambda row: -sum(map(packed_tokens, row)))
    # Dealt in turns of alternating direction, so that in each forward the ranks hold rows of similar length.
    turns = [rows[i : i + ranks] for i in range(0, len(rows), ranks)]
    dealt = [turn if i % 2 == 0 else turn[::-1] for i, turn in enumerate(turns)]
    return [[turn[rank] for turn in dealt] for rank in range(ranks)]


def split_group(group: TrainGroup, token_budget: int) -> Iterator[TrainGroup]:
    """The group itself, or prompt + some branches several times where it is longer than the budget."""
    room = token_budget - len(group.prompt_ids)
    taken: list = []
    for branch in group.branches:
        if taken and sum(len(b.token_ids) for b in taken) + len(branch.token_ids) > room:
            yield replace(group, branches=tuple(taken))
            taken = []
        taken.append(branch)
    if taken:
        yield replace(group, branches=tuple(taken))


def _fill(parts: Sequence[TrainGroup], count: int, token_budget: int) -> list[MicroBatch] | None:
    """`parts` (longest first) into `count` rows, or None where one would pass the budget that it need not pass."""
    rows: list[list[TrainGroup]] = [[] for _ in range(count)]
    loads = [(0, i) for i in range(count)]
    for part in parts:
        load, i = heapq.heappop(loads)
        load += packed_tokens(part)
        if load > token_budget and rows[i]:
            return None
        rows[i].append(part)
        heapq.heappush(loads, (load, i))
    return [tuple(row) for row in rows]
