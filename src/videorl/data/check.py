"""What a run would be trained on, and what not: the numbers behind `videorl data check`.

Rows are read once and only numbers are kept of them. Without `opened` no video is touched: missing files are counted,
and a prompt is taken to be as long as the sampling allows.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from videorl.data.dataset import kept_questions
from videorl.data.decoding import Facts
from videorl.data.media import DistinctMedia
from videorl.data.questions import FileReport, ReadRow
from videorl.data.sampling import PATCH_SIDE, sampling_for
from videorl.errors import QuestionDropped
from videorl.types import Frames, FrameSampling, Media, Question

_EXAMPLES = 3


class PromptLengths(Protocol):
    """Counts tokens; PromptBuilder does."""

    def text_tokens(self, question: Question) -> int: ...

    def media_tokens(self, frames: Frames) -> int: ...


@dataclass(slots=True, frozen=True)
class Opened:
    """How media are opened, where they are."""

    probe: Callable[[Media, FrameSampling], Facts]  # raises QuestionDropped; called from `threads` threads
    threads: int
    progress: Callable[[int, int], None]  # done, of how many


@dataclass(slots=True)
class MediaCheck:
    """Distinct media. `rows_without` counts questions that would be dropped for theirs."""

    distinct: int = 0
    rows_without: int = 0
    problems: Counter[str] = field(default_factory=Counter)  # by drop reason; video_missing is known without opening
    examples: dict[str, list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    opened: bool = False


@dataclass(slots=True, frozen=True)
class Overlap:
    """Questions that also stand in an evaluation file, or ask about a video of the same name."""

    path: Path
    by_question: int
    by_video: int


@dataclass(slots=True)
class Check:
    """The result."""

    files: list[FileReport]
    media: MediaCheck
    repeated: int  # kept questions that ask the same about the same media as one before them, under another id
    positions: dict[int, Counter[str]]  # right letters, by number of options
    overlaps: list[Overlap]
    prompt_tokens: list[int]  # empty where no processor was given
    frames: list[int]  # per medium; empty where none was opened
    exact: bool  # prompt_tokens are counted on opened media, else they are bounds


@dataclass(slots=True)
class _Seen:
    """What is kept of the questions: numbers, and each distinct medium once."""

    media: DistinctMedia = field(default_factory=DistinctMedia)
    media_of_row: list[tuple[int, ...]] = field(default_factory=list)  # equal tuples are one
    tuples: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)
    text_tokens: array[int] = field(default_factory=lambda: array("l"))
    asked: set[int] = field(default_factory=set)
    texts: array[int] = field(default_factory=lambda: array("q"))
    repeated: int = 0
    positions: dict[int, Counter[str]] = field(default_factory=dict)

    def add(self, question: Question, lengths: PromptLengths | None) -> None:
        numbers = tuple(self.media.number(medium) for medium in question.media)
        self.media_of_row.append(self.tuples.setdefault(numbers, numbers))
        asked = hash((question.text, question.options, numbers))
        self.repeated += asked in self.asked
        self.asked.add(asked)
        self.texts.append(_folded(question.text))
        letters = self.positions.setdefault(len(question.options), Counter())
        letters[chr(ord("A") + question.answer)] += 1
        if lengths is not None:
            self.text_tokens.append(lengths.text_tokens(question))


def check_questions(
    rows: Iterable[ReadRow],
    sampling: FrameSampling,
    *,
    against: Sequence[tuple[Path, Iterable[ReadRow]]] = (),
    lengths: PromptLengths | None = None,
    opened: Opened | None = None,
) -> Check:
    """Read all rows and count.

    Args:
        against: evaluation files to find the same questions and videos in.
        lengths: counts prompt tokens.
        opened: open every medium.
    """
    reports: dict[Path, FileReport] = {}
    seen = _Seen()
    for question in kept_questions(rows, reports):
        seen.add(question, lengths)
    facts, media = _check_media(seen, sampling, opened)
    return Check(
        files=list(reports.values()),
        media=media,
        repeated=seen.repeated,
        positions=dict(sorted(seen.positions.items())),
        overlaps=[_overlap(path, other, seen) for path, other in against],
        prompt_tokens=_prompt_tokens(seen, facts, sampling, lengths) if lengths is not None else [],
        frames=[fact.frames for fact in facts if fact is not None],
        exact=opened is not None,
    )


def _check_media(seen: _Seen, sampling: FrameSampling, opened: Opened | None) -> tuple[list[Facts | None], MediaCheck]:
    """Facts of each medium (None: missing, broken or not opened) and what is wrong with them."""
    result = MediaCheck(distinct=len(seen.media.all), opened=opened is not None)
    facts: list[Facts | None] = [None] * result.distinct
    bad: set[int] = set()

    def note(number: int, reason: str, detail: str) -> None:
        bad.add(number)
        result.problems[reason] += 1
        examples = result.examples.setdefault(reason, [])
        if len(examples) < _EXAMPLES:
            examples.append(detail)

    there: list[int] = []
    for number, medium in enumerate(seen.media.all):
        # os.path says False of a name that no file can have, where Path raises.
        if all(os.path.exists(name) for name in medium.frames or (medium.path,)):  # noqa: PTH110
            there.append(number)
        else:
            note(number, "video_missing", f"{medium.path}: no such file")
    if opened is not None:
        outcomes = _open_all(opened, [seen.media.all[number] for number in there], sampling)
        for number, outcome in zip(there, outcomes, strict=True):
            if isinstance(outcome, QuestionDropped):
                note(number, outcome.drop.reason.value, outcome.drop.detail)
            else:
                facts[number] = outcome
                result.warnings.extend(f"{seen.media.all[number].path}: {w}" for w in outcome.warnings)
    result.rows_without = sum(any(number in bad for number in numbers) for numbers in seen.media_of_row)
    return facts, result


def _open_all(opened: Opened, media: Sequence[Media], sampling: FrameSampling) -> list[Facts | QuestionDropped]:
    def one(medium: Media) -> Facts | QuestionDropped:
        try:
            return opened.probe(medium, sampling_for(medium, sampling))
        except QuestionDropped as dropped:
            return dropped

    outcomes: list[Facts | QuestionDropped] = []
    with ThreadPoolExecutor(opened.threads) as threads:
        for outcome in threads.map(one, media):
            outcomes.append(outcome)
            opened.progress(len(outcomes), len(media))
    return outcomes


def _prompt_tokens(
    seen: _Seen, facts: Sequence[Facts | None], sampling: FrameSampling, lengths: PromptLengths
) -> list[int]:
    counted: dict[object, int] = {}

    def media_tokens(number: int) -> int:
        fact = facts[number]
        own = sampling_for(seen.media.all[number], sampling)
        frames = _of_shape(fact.frames, fact.height, fact.width, fact.timestamps) if fact else _largest(own)
        key = (frames.pixels.shape, tuple(np.round(frames.timestamps, 3)))
        if key not in counted:
            counted[key] = lengths.media_tokens(frames)
        return counted[key]

    per_medium = [media_tokens(number) for number in range(len(seen.media.all))]
    rows = zip(seen.text_tokens, seen.media_of_row, strict=True)
    return [text + sum(per_medium[number] for number in numbers) for text, numbers in rows]


def _largest(sampling: FrameSampling) -> Frames:
    """Frames with as many tokens as the sampling allows."""
    patches = max(1, sampling.max_pixels // PATCH_SIDE**2)
    return _of_shape(sampling.max_frames, PATCH_SIDE, PATCH_SIDE * patches, [999.9] * sampling.max_frames)


def _of_shape(count: int, height: int, width: int, timestamps: Sequence[float]) -> Frames:
    pixels = np.broadcast_to(np.uint8(0), (count, height, width, 3))  # holds one byte
    return Frames(pixels, np.asarray(timestamps, np.float64), np.arange(count, dtype=np.int32))


def _overlap(path: Path, rows: Iterable[ReadRow], seen: _Seen) -> Overlap:
    texts, videos = set(), set()
    for row in rows:
        if isinstance(row.outcome, Question):
            texts.add(_folded(row.outcome.text))
            videos.update(_name(medium) for medium in row.outcome.media)
    shared = {number for number, medium in enumerate(seen.media.all) if _name(medium) in videos}
    return Overlap(
        path,
        by_question=sum(text in texts for text in seen.texts),
        by_video=sum(any(number in shared for number in numbers) for numbers in seen.media_of_row),
    )


def _folded(text: str) -> int:
    return hash(" ".join(text.casefold().split()))


def _name(medium: Media) -> str:
    return Path(medium.path).stem.casefold()
