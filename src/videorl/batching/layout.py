"""How prompts and branches lie in one packed row.

    | prompt A | A.1 | A.2 | … | prompt B | B.1 | …          one row, groups one after another

A prompt token sees the earlier tokens of its prompt. A branch token sees its whole prompt and the earlier tokens of its
own branch: nothing of its siblings, nothing of other groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(slots=True, frozen=True)
class GroupSpan:
    """One group's place in a row: where it starts, its prompt's length and its branches' lengths, in tokens."""

    start: int
    prompt: int
    branches: tuple[int, ...]

    @property
    def branch_start(self) -> int:
        return self.start + self.prompt

    @property
    def end(self) -> int:
        return self.branch_start + sum(self.branches)

    def branch_spans(self) -> Iterator[tuple[int, int]]:
        """(start, end) of each branch in the row."""
        at = self.branch_start
        for length in self.branches:
            yield at, at + length
            at += length


@dataclass(slots=True, frozen=True)
class BranchLayout:
    """The layout of one packed row. Made by batching; read by branch attention in every layer."""

    groups: tuple[GroupSpan, ...]

    @classmethod
    def of(cls, lengths: list[tuple[int, list[int]]]) -> BranchLayout:
        """From (prompt length, branch lengths) of each group, in row order."""
        spans: list[GroupSpan] = []
        at = 0
        for prompt, branches in lengths:
            spans.append(GroupSpan(at, prompt, tuple(branches)))
            at = spans[-1].end
        return cls(tuple(spans))

    @property
    def tokens(self) -> int:
        return self.groups[-1].end if self.groups else 0

    def dense_mask(self, device: torch.device) -> Bool[Tensor, "S S"]:
        """True where a query (row) may see a key (column): this module's definition, written out."""
        group = torch.empty(self.tokens, dtype=torch.long)
        branch = torch.empty(self.tokens, dtype=torch.long)  # 0: the prompt
        for g, span in enumerate(self.groups):
            group[span.start : span.end] = g
            branch[span.start : span.branch_start] = 0
            for b, (start, end) in enumerate(span.branch_spans(), start=1):
                branch[start:end] = b
        at = torch.arange(self.tokens)
        same_group = group[:, None] == group[None, :]
        visible = (branch[None, :] == 0) | (branch[:, None] == branch[None, :])
        return (same_group & visible & (at[:, None] >= at[None, :])).to(device)

    def varlen(self, device: torch.device) -> VarlenIndex:
        """Index tensors for two variable-length attention calls."""
        prompts, queries, keys, q_lengths, k_lengths = [], [], [], [], []
        for span in self.groups:
            prompt = torch.arange(span.start, span.branch_start)
            prompts.append(prompt)
            for start, end in span.branch_spans():
                own = torch.arange(start, end)
                queries.append(own)
                keys.extend((prompt, own))
                q_lengths.append(end - start)
                k_lengths.append(span.prompt + end - start)
        return VarlenIndex(
            prompts=torch.cat(prompts).to(device),
            prompt_ends=_cumulative([span.prompt for span in self.groups], device),
            longest_prompt=max(span.prompt for span in self.groups),
            queries=torch.cat(queries).to(device),
            query_ends=_cumulative(q_lengths, device),
            longest_query=max(q_lengths),
            keys=torch.cat(keys).to(device),
            key_ends=_cumulative(k_lengths, device),
            longest_key=max(k_lengths),
        )


@dataclass(slots=True, frozen=True)
class VarlenIndex:
    """Which row positions are queries and keys of a variable-length call, with cumulative lengths (int32, from 0)."""

    prompts: Int[Tensor, "P"]
    prompt_ends: Int[Tensor, "G+1"]
    longest_prompt: int
    queries: Int[Tensor, "Q"]
    query_ends: Int[Tensor, "B+1"]
    longest_query: int
    keys: Int[Tensor, "K"]
    key_ends: Int[Tensor, "B+1"]
    longest_key: int


def _cumulative(lengths: list[int], device: torch.device) -> Int[Tensor, "n+1"]:
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32, device=device)
