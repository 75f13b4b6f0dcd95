"""What the trainer is to the controller, however many ranks stand behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from videorl.types import UpdateBatch, UpdateReport, WeightHandle


class Trainer(Protocol):
    async def update(self, batch: UpdateBatch) -> UpdateReport:
        """One optimizer step (or a counted skip) over the batch's groups."""
        ...

    async def stage_weights(self, version: int) -> WeightHandle:
        """Make the current weights readable as `version`."""
        ...

    async def send_weights(self, handle: WeightHandle) -> None:
        """Take part in the transfer while the replicas load (nothing to do where they read shared memory)."""
        ...

    async def release_weights(self, handle: WeightHandle) -> None:
        """Forget a staged version that every replica has loaded."""
        ...

    async def save(self, folder: Path) -> None:
        """Write `trainer/` (model, optimizer, schedule, RNG) and `hf/` (a Hugging Face model) into `folder`."""
        ...

    async def load(self, folder: Path) -> None:
        """Continue exactly from what `save` wrote, on any number of ranks."""
        ...

    async def close(self) -> None: ...
