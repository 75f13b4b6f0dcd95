"""The engine's half of the token mask: forbidden tokens get no probability in any request.

The trainer leaves the same ids out of its softmax (`data/tokens.py`). It acts before temperature and log-probs, so
the engine's processed log-probs are those of the masked distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor

if TYPE_CHECKING:
    from vllm.config import VllmConfig

FORBIDDEN_KEY = "videorl_forbidden_token_ids"  # in vLLM's additional_config, which reaches every worker


class ForbiddenTokens(LogitsProcessor):
    """Sets the forbidden ids to minus infinity, in every row, for the engine's whole life."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        ids = vllm_config.additional_config[FORBIDDEN_KEY]  # type: ignore[index]  # a plain dict in our engines
        self._ids = torch.tensor(ids, dtype=torch.long, device=device)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Mask `logits` (float [requests, vocabulary]) in place."""
        return logits.index_fill_(-1, self._ids, float("-inf"))

    def is_argmax_invariant(self) -> bool:
        return False  # greedy decoding must be masked too

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Nothing depends on the request."""
