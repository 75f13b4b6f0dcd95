"""What a response is worth. The same function trains, evaluates and scores files."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Literal, Protocol

from videorl.rewards.answers import Response, find_boxes, read_choice, read_response
from videorl.types import Question, Score


@dataclass(slots=True, frozen=True)
class Unscored:
    """A typed "cannot be scored": the response enters neither mean, std, loss nor denominator."""

    reason: str


class Reward(Protocol):
    """A function of a question and a completion; it may be awaited."""

    def __call__(
        self, question: Question, completion: str, *, thinks: bool
    ) -> Score | Unscored | Awaitable[Score | Unscored]:
        """Judge `completion` (without the prompt); `thinks`: the prompt already opened "<think>"."""
        ...


async def judge(reward: Reward, question: Question, completion: str, *, thinks: bool) -> Score | Unscored:
    """What `reward` says, awaited where needed. A reward that raises or answers nonsense gives an `Unscored`."""
    try:
        verdict = reward(question, completion, thinks=thinks)
        if inspect.isawaitable(verdict):
            verdict = await verdict
    except Exception as error:  # a user's own code: the response is dropped with what it said
        return Unscored(f"the reward raised {type(error).__name__}: {error}")
    if isinstance(verdict, Unscored):
        return verdict
    if not isinstance(verdict, Score):
        return Unscored(f"the reward answered {type(verdict).__name__}, not Score or Unscored")
    if not all(math.isfinite(part) for part in (verdict.score, verdict.accuracy, verdict.format)):
        return Unscored(f"the reward answered a number that is not finite: {verdict}")
    return verdict


@dataclass(slots=True, frozen=True)
class MultipleChoice:
    """score = (1 - format_weight)·accuracy + format_weight·format, accuracy 0 or 1."""

    profile: Literal["letter", "vero"] = "letter"
    format_weight: float = 0.2
    min_think_chars: int = 100

    def __call__(self, question: Question, completion: str, *, thinks: bool) -> Score | Unscored:
        if len(question.options) < 2 or not 0 <= question.answer < len(question.options):
            return Unscored(f"{question.id}: multiple choice needs options and the index of the right one")
        response = read_response(completion, thinks=thinks)
        choice = read_choice(response.tail, question.options)
        accuracy = float(choice == chr(ord("A") + question.answer))
        form = self._format(response, choice)
        score = (1 - self.format_weight) * accuracy + self.format_weight * form
        return Score(score=score, accuracy=accuracy, format=form, choice=choice)

    def _format(self, response: Response, choice: str | None) -> float:
        if response.thoughts is None or len(response.thoughts) < self.min_think_chars:
            return 0.0
        if self.profile == "vero":
            return _answer_block_form(response.tail)
        return float(choice is not None and _ONE_DECLARATION.fullmatch(response.tail) is not None)


_LETTER = r"[A-Za-z]"
_BOX = rf"\\boxed\s*\{{\s*(?:{_LETTER}|\\text\s*\{{\s*{_LETTER}\s*\}})\s*\}}"
_ONE_DECLARATION = re.compile(
    rf"{_LETTER}\.?|\(\s*{_LETTER}\s*\)|{_BOX}|<answer>\s*(?:{_LETTER}|{_BOX})\s*</answer>",
)
_ANSWER_BLOCK = re.compile(r"<answer>(.*)</answer>", re.DOTALL)


def _answer_block_form(tail: str) -> float:
    """vero: the tail ends with its only answer block; 1 with exactly one box in it, 0.5 without any, else 0."""
    if tail.count("<answer>") != 1 or tail.count("</answer>") != 1 or not tail.endswith("</answer>"):
        return 0.0
    block = _ANSWER_BLOCK.search(tail)
    if block is None:
        return 0.0
    boxes = block[1].count("\\boxed")
    if boxes == 0:
        return 0.5
    return float(boxes == 1 and len(find_boxes(block[1])) == 1)
