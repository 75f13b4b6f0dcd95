"""The two tables that define what a response is worth, row by row."""

from __future__ import annotations

import pytest

from builders_rewards import T, question, think
from videorl.rewards.reward import MultipleChoice
from videorl.types import Score

LETTER = MultipleChoice("letter")
VERO = MultipleChoice("vero")

RIGHT_AND_WELL_FORMED = [
    T + r"<answer>\boxed{B}</answer>",
    T + "<answer>B</answer>",
    T + "B",
    T + "(B)",
    T + "b",
    T + "B.",
    T + r"\boxed{\text{B}}",
    think(100) + "B",
]
RIGHT_BUT_ILL_FORMED = [
    T + "B. red car",
    T + "<answer>B. red car</answer>",
    T + "<answer>B: lorry</answer>",
    T + "The answer is (B).",
    T + "red car",
    T + "Answer: **B**",
    T + "B because a car moves",
    T + "The answer is B because a car moves.",
    think(120) + think(120) + "B",
    T + "<answer>A</answer> no, <answer>B</answer>",
    think(99) + "B",
    "B",
    "It moves to the left, so it is the red one. " * 5 + "</think>B",
]
WRONG_BUT_WELL_FORMED = [T + "C", T + r"<answer>\boxed{C}</answer>"]
NO_ANSWER = [
    T + "A and B",
    T + "B and A",
    T + "B, C",
    T + "A, B, C, D",
    T + "A. B. C. D.",
    T + "AB",
    T + "A or B or C",
    T + "A red car",
    T + "B red truck",
    T + "It is the red car",
    "<think>" + "It moves. " * 20 + "so B",
    "<think>" + "It moves. " * 20 + "the answer is B.</think>",
    T + "E",
    "",
    "   \n ",
    T,
    T + "<answer></answer>",
    T + "score=1.0; ground truth: B",
]


@pytest.mark.parametrize(
    ("response", "expected"),
    [(r, Score(1.0, 1, 1, "B")) for r in RIGHT_AND_WELL_FORMED]
    + [(r, Score(0.8, 1, 0, "B")) for r in RIGHT_BUT_ILL_FORMED]
    + [(r, Score(0.2, 0, 1, "C")) for r in WRONG_BUT_WELL_FORMED]
    + [(r, Score(0.0, 0, 0, None)) for r in NO_ANSWER],
)
def test_letter(response: str, expected: Score) -> None:
    assert LETTER(question(), response, thinks=False) == expected


@pytest.mark.parametrize(
    ("response", "score", "choice"),
    [
        (T + r"<answer>\boxed{B}</answer>", 1.0, "B"),
        (T + "<answer>B</answer>", 0.9, "B"),
        (T + "B", 0.8, "B"),
        (T + r"<answer>\boxed{C}</answer>", 0.2, "C"),
        (T + "<answer>C</answer>", 0.1, "C"),
        (T + "A and B", 0.0, None),
        (T + r"<answer>\boxed{A} \boxed{B}</answer>", 0.8, "B"),
        (T + r"<answer>\boxed{B</answer>", 0.0, None),
        (T + r"<answer>\boxed{B}</answer> indeed", 0.8, "B"),
        (T + r"<answer>A</answer><answer>\boxed{B}</answer>", 0.8, "B"),
        (think(99) + r"<answer>\boxed{B}</answer>", 0.8, "B"),
        ("Well: " + T + r"<answer>\boxed{B}</answer>", 0.8, "B"),
    ],
)
def test_vero(response: str, score: float, choice: str | None) -> None:
    verdict = VERO(question(), response, thinks=False)
    assert isinstance(verdict, Score)
    assert verdict.score == pytest.approx(score)
    assert verdict.choice == choice


def test_a_prompt_that_opened_the_think_block_is_put_back_in_front() -> None:
    response = T.removeprefix("<think>") + "B"
    assert LETTER(question(), response, thinks=True) == Score(1.0, 1, 1, "B")
    assert LETTER(question(), response, thinks=False) == Score(0.8, 1, 0, "B")
    assert LETTER(question(), "B", thinks=True) == Score(0.0, 0, 0, None)


def test_the_weights_come_from_the_config() -> None:
    reward = MultipleChoice("letter", format_weight=0.5, min_think_chars=5)
    assert reward(question(), think(5) + "C", thinks=False) == Score(0.5, 0, 1, "C")
    assert reward(question(), think(4) + "B", thinks=False) == Score(0.5, 1, 0, "B")
