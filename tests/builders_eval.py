"""Small predictions and questions for tests of the evaluation."""

from __future__ import annotations

from videorl.eval.predictions import Prediction
from videorl.types import Media, Question


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
