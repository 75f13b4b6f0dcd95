"""What a question looks like as a user's turn: one function for each answer format.

A template is a function of the Question that returns parts: text, and MEDIA where the next medium goes. One of your own
is named in the config as `data.prompt = "module:function"`.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from enum import Enum

from videorl.config.imports import import_function
from videorl.data.placeholders import split_at_media
from videorl.errors import QuestionDropped, UserError
from videorl.types import Drop, DropReason, Question


class Slot(Enum):
    """A place in a prompt that is not text."""

    MEDIA = "media"


MEDIA = Slot.MEDIA
Part = str | Slot
Template = Callable[[Question], Sequence[Part]]

LETTER_INSTRUCTION = (
    "Answer the multiple-choice question. Reason inside <think>...</think>, then give the final letter."
)
VERO_INSTRUCTION = (
    "Answer the multiple-choice question. Reason inside <think>...</think>, "
    "then give the final letter as <answer>\\boxed{letter}</answer>."
)


def letter(question: Question) -> list[Part]:
    """For the reward profile `letter`."""
    return [*[MEDIA] * len(question.media), f"{stated(question)}\n{LETTER_INSTRUCTION}"]


def vero(question: Question) -> list[Part]:
    """For the reward profile `vero`."""
    return [*[MEDIA] * len(question.media), f"{stated(question)}\n{VERO_INSTRUCTION}"]


def as_given(question: Question) -> list[Part]:
    """The row's own prompt, verbatim, with the media where it marks them, else in front.

    Raises:
        QuestionDropped: PROMPT_INVALID, for a row without a prompt of its own.
    """
    if question.given_prompt is None:
        detail = f"{question.id}: data.prompt is as-given, but the row's format holds no prompt"
        raise QuestionDropped(Drop(DropReason.PROMPT_INVALID, detail))
    first, *rest = split_at_media(question.given_prompt, question.media)
    if not rest:
        return [*[MEDIA] * len(question.media), first]
    return [first, *(part for piece in rest for part in (MEDIA, piece))]


def stated(question: Question) -> str:
    """The question and its options as lines "A. x"."""
    options = (f"{label}. {text}" for label, text in zip(string.ascii_uppercase, question.options, strict=False))
    return "\n".join([question.text, *options])


_BUILT_IN: dict[str, Template] = {"letter": letter, "vero": vero, "as-given": as_given}


def template_named(name: str, reward: str = "letter") -> Template:
    """The template that `data.prompt` names; "auto" is the one of the reward's format.

    Raises:
        UserError: an unknown name, a module that cannot be imported, or "auto" with a reward of the user's own.
    """
    if name == "auto":
        if reward not in _BUILT_IN:
            raise UserError(
                f"data.prompt = 'auto' knows the formats of letter and vero, not of reward.name = {reward!r}: "
                "set data.prompt to letter, vero, as-given or a module:function of your own"
            )
        return _BUILT_IN[reward]
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    if ":" not in name:
        raise UserError(f"data.prompt = {name!r}: known are auto, {', '.join(_BUILT_IN)}, or module:function")
    return import_function(name, "data.prompt")
