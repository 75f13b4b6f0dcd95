"""What a rollout replica is to the rest of the system."""

from __future__ import annotations

from typing import Protocol

from videorl.types import Prompt, Rollout, Sampling, WeightHandle


class Engine(Protocol):
    """One replica: it turns a prompt into n responses, and takes new weights while responses are in flight."""

    name: str

    async def generate(self, request_id: str, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        """Sample n responses as one request, prompt and frames computed once.

        Raises:
            EngineDied: the replica is gone.
            DeadlineExceeded: it did not answer in time.
            QuestionDropped: this prompt cannot be generated from (the replica lives on).
        """
        ...

    async def load_weights(self, handle: WeightHandle) -> None:
        """Pause keeping running responses, load, drop every cache of the old weights, resume.

        When it returns, `version()` is `handle.version` and every later token is sampled under it.
        """
        ...

    async def version(self) -> int:
        """The version of the weights that the replica samples with now."""
        ...

    async def close(self) -> None: ...
