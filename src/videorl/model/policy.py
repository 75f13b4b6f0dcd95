"""The policy: a packed row in, log-probabilities and entropies of its response tokens out."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from videorl.algo.logprobs import token_logprobs
from videorl.batching.row import PackedRow
from videorl.model.attention import RowAttention
from videorl.model.family import ModelFamily, VideoInputs


class LogProbHead(nn.Module):
    """The output projection together with the softmax, so that the logits of only one chunk exist at a time.

    One module, entered once per row: FSDP gathers its weight once however many chunks there are.
    """

    def __init__(self, weight: nn.Parameter, temperature: float, forbidden: Int[Tensor, "K"], chunk: int) -> None:
        super().__init__()
        self.weight = weight
        self.temperature = temperature
        self.chunk = chunk
        self.forbidden = nn.Buffer(forbidden, persistent=False)

    def forward(
        self, hidden: Float[Tensor, "N D"], targets: Int[Tensor, "N"]
    ) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        parts = [
            checkpoint(self._chunk, h, t, use_reentrant=False)
            for h, t in zip(hidden.split(self.chunk), targets.split(self.chunk), strict=True)
        ]
        logprobs, entropies = zip(*parts, strict=True)
        return torch.cat(logprobs), torch.cat(entropies)

    def _chunk(self, hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return token_logprobs(linear(hidden, self.weight), targets, self.temperature, self.forbidden)


class Policy(nn.Module):
    """A Hugging Face model seen through its family, for packed rows. Sharded by entering this module's forward."""

    def __init__(
        self,
        model: nn.Module,
        family: ModelFamily,
        attention: str,
        temperature: float,
        forbidden: Int[Tensor, "K"],
        logprob_chunk: int,
    ) -> None:
        super().__init__()
        self.model = model
        self.family = family
        self.attention = attention
        # In the place of the model's own head, so that its weight has one owner and keeps its name.
        self.head = LogProbHead(family.head_weight(model), temperature, forbidden, logprob_chunk)
        family.replace_head(model, self.head)

    def forward(self, row: PackedRow, videos: VideoInputs) -> tuple[Float[Tensor, "N"], Float[Tensor, "N"]]:
        """log π and entropy (nats) of the row's N response tokens, float32."""
        attention = RowAttention(row.layout, self.attention, row.token_ids.device)
        hidden = self.family.hidden_states(self.model, row, videos, attention)
        return self.head(hidden[row.predictors], row.targets)
