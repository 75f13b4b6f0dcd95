"""Branch attention: three implementations of `BranchLayout.dense_mask`, behind one function that transformers calls.

`dense` is the oracle, `split` the CPU's choice, `varlen` the GPU's. The function is registered without a mask function
of the same name, so transformers builds no causal mask; the layout comes down to each layer as a keyword argument.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface

from videorl.batching.layout import BranchLayout, GroupSpan, VarlenIndex

Heads = Float[Tensor, "1 H S D"]


class RowAttention:
    """One row's layout with whatever its implementation prepares once and every layer reads."""

    def __init__(self, layout: BranchLayout, kind: str, device: torch.device) -> None:
        self.layout = layout
        self.kind = kind
        self.mask = layout.dense_mask(device) if kind == "dense" else None
        self.index = layout.varlen(device) if kind == "varlen" else None

    def __call__(self, q: Heads, k: Heads, v: Heads, scale: float) -> Heads:
        if self.index is not None:
            return varlen_attention(q, k, v, scale, self.index)
        if self.mask is not None:
            return scaled_dot_product_attention(q, k, v, attn_mask=self.mask, scale=scale, enable_gqa=True)
        return torch.cat([split_attention(q, k, v, scale, span) for span in self.layout.groups], dim=2)


def split_attention(q: Heads, k: Heads, v: Heads, scale: float, span: GroupSpan) -> Heads:
    """One group's part: causal attention over the prompt, then its branches as a padded batch over prompt + own."""
    prompt = slice(span.start, span.branch_start)
    out = [
        scaled_dot_product_attention(
            q[:, :, prompt], k[:, :, prompt], v[:, :, prompt], is_causal=True, scale=scale, enable_gqa=True
        )
    ]
    if span.branches:
        mask = _branch_mask(span, q.device)
        bq, bk, bv = (_branch_batch(x, span) for x in (q, k, v))
        n = len(span.branches)
        bk = torch.cat([k[:, :, prompt].expand(n, -1, -1, -1), bk], dim=2)
        bv = torch.cat([v[:, :, prompt].expand(n, -1, -1, -1), bv], dim=2)
        batch = scaled_dot_product_attention(bq, bk, bv, attn_mask=mask, scale=scale, enable_gqa=True)
        out += [batch[i : i + 1, :, :length] for i, length in enumerate(span.branches)]
    return torch.cat(out, dim=2)


def _branch_batch(x: Heads, span: GroupSpan) -> Float[Tensor, "n H R D"]:
    longest = max(span.branches)
    return torch.cat([pad(x[:, :, s:e], (0, 0, 0, longest - (e - s))) for s, e in span.branch_spans()])


def _branch_mask(span: GroupSpan, device: torch.device) -> Tensor:
    """[R, P + R]: the whole prompt, and the branch causally. Padded keys stand after every real query."""
    longest = max(span.branches)
    causal = torch.ones(longest, longest, dtype=torch.bool, device=device).tril()
    return torch.cat([causal.new_ones(longest, span.prompt), causal], dim=1)


def varlen_attention(q: Heads, k: Heads, v: Heads, scale: float, index: VarlenIndex) -> Heads:
    """Two flash calls: prompts causal; branches with q = R_i, k = P + R_i, causal from the bottom right."""
    from torch.nn.attention.varlen import varlen_attn

    q, k, v = (x.squeeze(0).transpose(0, 1) for x in (q, k, v))  # [S, H, D]
    causal: dict[str, Any] = {"window_size": (-1, 0), "scale": scale, "enable_gqa": True}
    p, ends, longest = index.prompts, index.prompt_ends, index.longest_prompt
    prompts = varlen_attn(q[p], k[p], v[p], ends, ends, longest, longest, **causal)
    branches = varlen_attn(
        q[index.queries],
        k[index.keys],
        v[index.keys],
        index.query_ends,
        index.key_ends,
        index.longest_query,
        index.longest_key,
        **causal,
    )
    assert isinstance(prompts, Tensor)
    assert isinstance(branches, Tensor)
    out = torch.empty_like(q).index_copy(0, p, prompts).index_copy(0, index.queries, branches)
    return out.transpose(0, 1).unsqueeze(0)


def branch_attention(
    module: nn.Module,
    query: Heads,
    key: Heads,
    value: Heads,
    attention_mask: Tensor | None,
    scaling: float,
    branches: RowAttention,
    **_: Any,
) -> tuple[Float[Tensor, "1 S H D"], None]:
    """What transformers calls in every text layer; `branches` is the row's attention."""
    return branches(query, key, value, scaling).transpose(1, 2).contiguous(), None


def attention_kind(setting: str, device: torch.device) -> str:
    """`model.attention` resolved for a device."""
    return ("varlen" if device.type == "cuda" else "split") if setting == "auto" else setting


IMPLEMENTATION = "videorl_branches"  # must not contain "flash": transformers would take its flash path
AttentionInterface.register(IMPLEMENTATION, branch_attention)
