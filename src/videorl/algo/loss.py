"""The policy loss of one micro-batch.

GRPO with a clipped ratio (Shao et al. 2024, arXiv 2402.03300), asymmetric clipping (DAPO, arXiv 2503.14476) and dual
clip (Ye et al. 2020, arXiv 1912.09729). Denominators come in, (loss, metrics) go out; collectives are the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from videorl.config.schema import AlgoConfig

LOG_RATIO_LIMIT = 20.0


@dataclass(slots=True, frozen=True)
class TokenMetrics:
    """What a micro-batch saw. `sums` add up over micro-batches and ranks, `maxima` take the largest."""

    sums: dict[str, float]
    maxima: dict[str, float]


def policy_loss(
    logprobs: Float[Tensor, "N"],
    entropy: Float[Tensor, "N"],
    old_logprobs: Float[Tensor, "N"],
    advantages: Float[Tensor, "N"],
    branch: Int[Tensor, "N"],
    fresh: Bool[Tensor, "N"],
    denominator: int,
    algo: AlgoConfig,
) -> tuple[Float[Tensor, ""], TokenMetrics]:
    """Σ ℓ over the micro-batch's response tokens ÷ the response tokens of the whole update.

    Args:
        logprobs: of the current policy, with gradient.
        old_logprobs: the engine's, as sampled.
        branch: which response a token belongs to.
        fresh: tokens sampled under exactly the weights that the policy has now.
        denominator: response tokens of the update, over all ranks and micro-batches.
    """
    log_ratio = logprobs - old_logprobs
    if algo.ratio_level == "sequence":
        log_ratio = sequence_log_ratio(log_ratio, logprobs, branch)
    ratio = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    losses = LOSSES[algo.importance](ratio, logprobs, advantages, algo)
    losses = losses - algo.entropy_coef * entropy
    loss = losses.sum() / denominator
    return loss, _metrics(logprobs, old_logprobs, entropy, ratio, advantages, fresh, loss, algo)


def clipped(ratio: Tensor, logprobs: Tensor, advantages: Tensor, algo: AlgoConfig) -> Tensor:
    """ℓ = max(-ρA, -clip(ρ)·A), and for A < 0 at most -c·A."""
    bounded = ratio.clamp(1 - algo.clip_low, 1 + algo.clip_high)
    losses = torch.maximum(-ratio * advantages, -bounded * advantages)
    return torch.where(advantages < 0, torch.minimum(losses, -algo.dual_clip * advantages), losses)


def truncated(ratio: Tensor, logprobs: Tensor, advantages: Tensor, algo: AlgoConfig) -> Tensor:
    """ℓ = -min(ρ, cap)·A·log π with the weight held constant (truncated importance sampling, IMPALA)."""
    return -ratio.detach().clamp(max=algo.importance_cap) * advantages * logprobs


def masked(ratio: Tensor, logprobs: Tensor, advantages: Tensor, algo: AlgoConfig) -> Tensor:
    """The clipped loss without the tokens whose ratio lies outside [1/cap, cap]; they stay in the denominator."""
    inside = (ratio <= algo.importance_cap) & (ratio >= 1 / algo.importance_cap)
    return torch.where(inside, clipped(ratio, logprobs, advantages, algo), 0.0)


def likelihood_loss(
    logprobs: Float[Tensor, "N"], entropy: Float[Tensor, "N"], denominator: int
) -> tuple[Float[Tensor, ""], TokenMetrics]:
    """-Σ log π over given response tokens ÷ the response tokens of the whole update: supervised training."""
    loss = -logprobs.sum() / denominator
    sums = {"loss": loss.item(), "tokens": float(len(logprobs)), "entropy": entropy.detach().sum().item()}
    return loss, TokenMetrics(sums, {})


LOSSES = {"none": clipped, "truncated": truncated, "masked": masked}


def sequence_log_ratio(log_ratio: Tensor, logprobs: Tensor, branch: Int[Tensor, "N"]) -> Tensor:
    """The response's mean log-ratio on each token, gradient through the token (GSPO-token, arXiv 2507.18071)."""
    count = int(branch.max()) + 1 if len(branch) else 0
    sums = log_ratio.new_zeros(count).index_add(0, branch, log_ratio.detach())
    sizes = log_ratio.new_zeros(count).index_add(0, branch, torch.ones_like(log_ratio))
    return (sums / sizes)[branch] + logprobs - logprobs.detach()


@torch.no_grad()
def _metrics(
    logprobs: Tensor,
    old_logprobs: Tensor,
    entropy: Tensor,
    ratio: Tensor,
    advantages: Tensor,
    fresh: Tensor,
    loss: Tensor,
    algo: AlgoConfig,
) -> TokenMetrics:
    log_ratio = logprobs - old_logprobs
    clipped_up = (ratio > 1 + algo.clip_high) & (advantages > 0)
    clipped_down = (ratio < 1 - algo.clip_low) & (advantages < 0)
    difference = log_ratio.abs()
    sums = {
        "loss": loss.item(),
        "tokens": float(len(logprobs)),
        "entropy": entropy.sum().item(),
        "mean": ratio.sum().item(),
        "clip_high": clipped_up.sum().item(),
        "clip_low": clipped_down.sum().item(),
        "dual_clip": ((advantages < 0) & (ratio > algo.dual_clip)).sum().item(),
        # k3 estimate of KL(old ‖ current), never negative (Schulman 2020).
        "kl": (log_ratio.exp() - 1 - log_ratio).sum().item(),
    }
    maxima = {"diff": difference.max().item()} if len(difference) else {}
    if fresh.any():
        maxima["fresh_diff"] = difference[fresh].max().item()
    return TokenMetrics(sums, maxima)
