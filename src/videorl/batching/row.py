"""A micro-batch → one packed row: token ids, positions, branch layout, and what each response token is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from videorl.batching.layout import BranchLayout
from videorl.types import TrainGroup


@dataclass(slots=True, frozen=True)
class PackedRow:
    """S tokens in a row, N of them response tokens that are trained. Made here; read by the policy and the loss."""

    layout: BranchLayout
    token_ids: Int[Tensor, "S"]
    position_ids: Int[Tensor, "3 S"]  # M-RoPE: time, height, width
    predictors: Int[Tensor, "N"]  # the row position whose hidden state predicts a response token
    targets: Int[Tensor, "N"]
    old_logprobs: Float[Tensor, "N"]
    advantages: Float[Tensor, "N"]
    branch: Int[Tensor, "N"]  # number of the response in the row
    fresh: Bool[Tensor, "N"]  # sampled under exactly the weights that the update begins with

    def to(self, device: torch.device) -> Self:
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        moved: dict[str, Any] = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in values.items()}
        return type(self)(**moved)


def pack(groups: Sequence[TrainGroup], positions: Sequence[Int[Tensor, "3 P"]], fresh_version: int | None) -> PackedRow:
    """Pack groups one after another.

    Args:
        positions: M-RoPE positions of each group's prompt. Every branch goes on at their maximum + 1, which for a
            prompt with video is not the prompt's length.
        fresh_version: the version whose tokens were sampled under the policy's present weights; None: no version's.
    """
    layout = BranchLayout.of([(len(g.prompt_ids), [len(b.token_ids) for b in g.branches]) for g in groups])
    branches = [branch for group in groups for branch in group.branches]
    tokens: list[np.ndarray] = []
    places: list[Tensor] = []
    predictors: list[Tensor] = []
    for group, span, prompt_positions in zip(groups, layout.groups, positions, strict=True):
        tokens += [group.prompt_ids, *(b.token_ids for b in group.branches)]
        next_position = int(prompt_positions.max()) + 1
        places.append(prompt_positions)
        for start, end in span.branch_spans():
            places.append((next_position + torch.arange(end - start)).expand(3, -1))
            # The prompt's last token predicts the first token of every branch.
            predictors.append(torch.tensor([span.branch_start - 1, *range(start, end - 1)]))
    return PackedRow(
        layout=layout,
        token_ids=torch.from_numpy(np.concatenate(tokens).astype(np.int64)),
        position_ids=torch.cat(places, dim=1),
        predictors=torch.cat(predictors),
        targets=torch.from_numpy(np.concatenate([b.token_ids for b in branches]).astype(np.int64)),
        old_logprobs=torch.from_numpy(np.concatenate([b.old_logprobs for b in branches]).astype(np.float32)),
        advantages=torch.cat([torch.full((len(b.token_ids),), b.advantage) for b in branches]),
        branch=torch.cat([torch.full((len(b.token_ids),), i, dtype=torch.long) for i, b in enumerate(branches)]),
        fresh=torch.from_numpy(np.concatenate([b.versions == fresh_version for b in branches]).astype(bool)),
    )
