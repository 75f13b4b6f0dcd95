"""What a response is worth beside its siblings: GRPO's group-relative advantage."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

_EPSILON = 1e-6


def advantages(scores: Float64[np.ndarray, "m"]) -> Float64[np.ndarray, "m"]:
    """A_i = (r_i - mean) / (std + 1e-6), unbiased std (GRPO: Shao et al. 2024, arXiv 2402.03300).

    `scores` are those of a group's scored responses; one that was dropped does not stand among them. All zero where
    m < 2 or all scores are equal: that is compared, because the mean of equal floats need not equal them, and the
    rest over the epsilon would count as an advantage.
    """
    if len(scores) < 2 or np.all(scores == scores[0]):
        return np.zeros(len(scores))
    return (scores - scores.mean()) / (scores.std(ddof=1) + _EPSILON)


def equal_weights(scores: Float64[np.ndarray, "m"]) -> Float64[np.ndarray, "m"]:
    """1 for every response: in supervised training nothing is better or worse."""
    return np.ones_like(scores)
