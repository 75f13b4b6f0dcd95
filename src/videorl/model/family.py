"""What a model family must know, so that everything else need not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jaxtyping import Float, Int
from torch import Tensor, nn

from videorl.batching.row import PackedRow
from videorl.model.attention import RowAttention
from videorl.types import Frames


@dataclass(slots=True, frozen=True)
class VideoInputs:
    """Videos as the vision tower takes them, one after another."""

    patches: Float[Tensor, "N C"]
    grid: Int[Tensor, "V 3"]  # frame pairs, rows and columns of patches of each video


class ModelFamily(Protocol):
    """One architecture. Written for one device; `train/parallelize` shards it from outside."""

    def build(self, folder: Path) -> nn.Module:
        """The architecture of `folder` in float32 on the meta device, its config set for branch attention.

        Raises:
            UserError: the folder holds no model of this family.
        """
        ...

    def restore_buffers(self, model: nn.Module) -> None:
        """Fill what no weight file holds, after the model has left the meta device."""
        ...

    def layers(self, model: nn.Module) -> Iterable[nn.Module]:
        """What is sharded and recomputed as a unit: text layers and vision blocks, in forward order."""
        ...

    def vision(self, model: nn.Module) -> nn.Module: ...

    def embedding(self, model: nn.Module) -> nn.Embedding: ...

    def head_weight(self, model: nn.Module) -> nn.Parameter: ...

    def replace_head(self, model: nn.Module, head: nn.Module) -> None: ...

    def video_inputs(self, frames: Sequence[Frames]) -> VideoInputs:
        """Patches and grids of the row's videos."""
        ...

    def prompt_positions(self, prompt_ids: Int[Tensor, "P"], grid: Int[Tensor, "V 3"]) -> Int[Tensor, "3 P"]:
        """M-RoPE positions of a prompt whose placeholders are expanded."""
        ...

    def filler(self) -> tuple[Int[Tensor, "P"], Frames]:
        """The smallest prompt with a video: what a rank without work runs."""
        ...

    def hidden_states(
        self, model: nn.Module, row: PackedRow, videos: VideoInputs, attention: RowAttention
    ) -> Float[Tensor, "S D"]:
        """The text model's last hidden states of a packed row, vision run once over its videos."""
        ...
