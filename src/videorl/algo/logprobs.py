"""Log-probabilities of sampled tokens, on the support that they were sampled from."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def token_logprobs(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, "N"], temperature: float, forbidden: Int[Tensor, "K"]
) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
    """log π(target) and the entropy of π, where π = softmax(logits / temperature) without the forbidden ids.

    Computed in float32 whatever the logits' dtype. A forbidden target has log-probability -inf.

    Returns:
        log-probabilities [N] and entropies in nats [N], both float32.
    """
    scaled = logits.float() / temperature
    scaled = scaled.index_fill(-1, forbidden, float("-inf"))
    logprobs = torch.log_softmax(scaled, dim=-1)
    chosen = logprobs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    # 0·(-inf) of a forbidden id is no number; its share of the entropy is 0.
    entropy = -(logprobs.exp() * logprobs.masked_fill(logprobs.isinf(), 0.0)).sum(-1)
    return chosen, entropy
