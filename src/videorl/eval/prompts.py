"""What the model is asked: the form that it was trained on, or other people's, for numbers comparable to theirs.

train      the prompt of the reward that trained the model
direct     question, options, "answer with the letter": what lmms-eval and VLMEvalKit ask of most models
official   the wording of each benchmark's own evaluation code
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from videorl.types import Question

PromptForm = Literal["train", "direct", "official"]


def direct(question: Question) -> str:
    return f"{question.text}\n{_lines(question)}\nAnswer with the option's letter from the given choices directly."


def video_mme(question: Question) -> str:
    """https://github.com/MME-Benchmarks/Video-MME."""
    head = "Select the best answer to the following multiple-choice question based on the video. Respond with only the"
    letters = _any_of(question)
    return f"{head} letter ({letters}) of the correct option.\n{question.text}\n{_lines(question)}\nThe best answer is:"


def perceptioncomp(question: Question) -> str:
    """https://github.com/hrinnnn/PerceptionComp (its template for a custom model)."""
    return (
        "Answer the following multiple-choice video question.\n"
        f"Question: {question.text}\n"
        f"Options: {_inline(question)}\n"
        f"End your response with `Answer: X` where X is {_any_of(question)}."
    )


def video_holmes(question: Question) -> str:
    """https://github.com/TencentARC/Video-Holmes (evaluate.py)."""
    return (
        "Based on the given video, reason and answer the single-choice question. Provide your reasoning between the "
        "<think> and </think> tags, and then give your final answer between the <answer> and </answer> tags. "
        f"The question is: {question.text}. The options are: {_inline(question)}. Your answer:"
    )


OFFICIAL: Mapping[str, Callable[[Question], str]] = {
    "video-mme": video_mme,
    "perceptioncomp": perceptioncomp,
    "video-holmes": video_holmes,
}


def as_asked(question: Question, form: PromptForm, format: str, subtitles: str = "") -> Question:
    """The question in a prompt form: "train" leaves it to the reward's template, the others become its own prompt.

    Args:
        format: the benchmark's file format; one without an official prompt is asked directly.
        subtitles: what is said in the video, or nothing.
    """
    intro = f"This video's subtitles are listed below:\n{subtitles}\n" if subtitles else ""
    if form == "train":
        return replace(question, text=intro + question.text)
    words = OFFICIAL.get(format, direct) if form == "official" else direct
    marks = "".join(f"<{medium.kind}>" for medium in question.media)
    return replace(question, given_prompt=marks + intro + words(question))


def _lines(question: Question) -> str:
    return "\n".join(f"{chr(ord('A') + i)}. {option}" for i, option in enumerate(question.options))


def _inline(question: Question) -> str:
    return ", ".join(f"{chr(ord('A') + i)}: {option}" for i, option in enumerate(question.options))


def _any_of(question: Question) -> str:
    letters = [chr(ord("A") + i) for i in range(len(question.options))]
    return f"{', '.join(letters[:-1])}, or {letters[-1]}"
