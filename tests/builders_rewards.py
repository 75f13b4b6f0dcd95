"""Questions to judge."""

from __future__ import annotations

from videorl.types import Question

CARS = ("blue car", "red car", "green car", "bus")


def question(options: tuple[str, ...] = CARS, answer: int = 1) -> Question:
    return Question(
        id="test/0",
        task="multiple_choice",
        text="What passes?",
        options=options,
        answer=answer,
        media=(),
        source="test",
    )


def think(length: int) -> str:
    """A think block of exactly `length` characters."""
    return f"<think>{'x' * length}</think>"


T = think(100)
