"""What a rank minimises: the policy loss of reinforcement learning, or the likelihood of given responses."""

from __future__ import annotations

from typing import Protocol

from jaxtyping import Float
from torch import Tensor

from videorl.algo.loss import TokenMetrics, likelihood_loss, policy_loss
from videorl.batching.row import PackedRow
from videorl.config.schema import AlgoConfig


class Objective(Protocol):
    """A loss over a packed row, and the temperature of the softmax that it is taken from."""

    @property
    def temperature(self) -> float: ...

    def loss(
        self, logprobs: Float[Tensor, "N"], entropy: Float[Tensor, "N"], row: PackedRow, denominator: int
    ) -> tuple[Float[Tensor, ""], TokenMetrics]:
        """Σ ℓ over the row's response tokens ÷ the response tokens of the whole update."""
        ...


class PolicyObjective:
    """GRPO, under the temperature that the engine samples with."""

    def __init__(self, algo: AlgoConfig, temperature: float) -> None:
        self._algo = algo
        self.temperature = temperature

    def loss(
        self, logprobs: Float[Tensor, "N"], entropy: Float[Tensor, "N"], row: PackedRow, denominator: int
    ) -> tuple[Float[Tensor, ""], TokenMetrics]:
        return policy_loss(
            logprobs, entropy, row.old_logprobs, row.advantages, row.branch, row.fresh, denominator, self._algo
        )


class SupervisedObjective:
    """Cross-entropy of given responses."""

    temperature = 1.0

    def loss(
        self, logprobs: Float[Tensor, "N"], entropy: Float[Tensor, "N"], row: PackedRow, denominator: int
    ) -> tuple[Float[Tensor, ""], TokenMetrics]:
        return likelihood_loss(logprobs, entropy, denominator)
