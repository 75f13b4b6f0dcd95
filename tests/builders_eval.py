"""Small predictions and questions, and a scripted engine, for tests of the evaluation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import numpy as np

from videorl.eval.predictions import Prediction
from videorl.eval.runner import Row
from videorl.types import Media, Prompt, Question, Rollout, Sampling, WeightHandle


def question(number: int = 0, *, answer: int = 1, options: int = 4, video: str | None = None) -> Question:
    return Question(
        id=f"made/{number}",
        task="multiple_choice",
        text=f"What is shown in clip {number}?",
        options=tuple(f"thing {i}" for i in range(options)),
        answer=answer,
        media=(Media("video", video or f"/videos/{number}.mp4"),),
        source="made",
        categories={"kind": "even" if number % 2 == 0 else "odd"},
    )


def prediction(
    number: int = 0, choice: str | None = "B", *, benchmark: str = "made", error: str | None = None
) -> Prediction:
    """A row whose right answer is B."""
    right = choice == "B" and error is None
    return Prediction(
        benchmark=benchmark,
        id=f"made/{number}",
        question="0" * 16,
        options=("thing 0", "thing 1", "thing 2", "thing 3"),
        answer="B",
        categories={"kind": "even" if number % 2 == 0 else "odd"},
        response=None if error else f"<think>reasoning</think>{choice}",
        choice=None if error else choice,
        accuracy=float(right),
        format=float(error is None and choice is not None),
        score=float(right),
        tokens=0 if error else 10 + number,
        finish_reason=None if error else "stop",
        error=error,
    )


class Scripted:
    """Answers B, or what its script does with a request."""

    def __init__(self, name: str, script: Callable[[str], None] = lambda _: None) -> None:
        self.name = name
        self.asked: list[str] = []
        self.busy = self.most = 0
        self._script = script

    async def generate(self, request_id: str, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        self.asked.append(request_id)
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(0)
        self.busy -= 1
        self._script(request_id)
        ids = np.array([1, 2, 3], np.int32)
        return [
            Rollout(ids, np.zeros(3, np.float32), np.zeros(3, np.int32), f"<think>{'x' * 100}</think>B", "stop")
        ] * n

    async def load_weights(self, handle: WeightHandle) -> None: ...

    async def version(self) -> int:
        return 0

    async def close(self) -> None: ...


def prepare(row: Row) -> Prompt:
    return Prompt("", np.array([1], np.int32), np.array([1], np.int32), ())
