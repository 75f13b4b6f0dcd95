"""What a run would be trained on, and what not: the numbers behind `videorl data check`.

Rows are read once; what is kept of them lies on disk (seen.py). Without `opened` no video is touched: missing files
are counted, and a prompt is taken to be as long as the sampling allows.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from videorl.data.dataset import kept_questions
from videorl.data.decoding import Facts
from videorl.data.questions import FileReport, ReadRow
from videorl.data.sampling import PATCH_SIDE, sampling_for
from videorl.data.seen import Seen, seen_on_disk
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
    prompt_tokens: array[int]  # empty where no processor was given
    frames: list[int]  # per medium; empty where none was opened
    exact: bool  # prompt_tokens are counted on opened media, else they are bounds


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
    positions: dict[int, Counter[str]] = {}
    with seen_on_disk() as seen:
        for question in kept_questions(rows, reports, known=seen.ids):
            seen.add(question, lengths.text_tokens(question) if lengths is not None else 0)
            positions.setdefault(len(question.options), Counter())[chr(ord("A") + question.answer)] += 1
        facts, media = _check_media(seen, sampling, opened)
        return Check(
            files=list(reports.values()),
            media=media,
            repeated=seen.repeated(),
            positions=dict(sorted(positions.items())),
            overlaps=[Overlap(path, *seen.shared_with(_questions(other))) for path, other in against],
            prompt_tokens=_prompt_tokens(seen, facts, sampling, lengths) if lengths is not None else array("l"),
            frames=[fact.frames for fact in facts.values()],
            exact=opened is not None,
        )


def _check_media(seen: Seen, sampling: FrameSampling, opened: Opened | None) -> tuple[dict[int, Facts], MediaCheck]:
    """Facts of each medium that was opened, by its number, and what is wrong with the others."""
    result = MediaCheck(distinct=seen.distinct_media(), opened=opened is not None)
    facts: dict[int, Facts] = {}

    def note(number: int, reason: str, detail: str) -> None:
        seen.mark_bad(number)
        result.problems[reason] += 1
        examples = result.examples.setdefault(reason, [])
        if len(examples) < _EXAMPLES:
            examples.append(detail)

    there: list[tuple[int, Media]] = []
    for number, medium in seen.media():
        # os.path says False of a name that no file can have, where Path raises.
        if not all(os.path.exists(name) for name in medium.frames or (medium.path,)):  # noqa: PTH110
            note(number, "video_missing", f"{medium.path}: no such file")
        elif opened is not None:
            there.append((number, medium))
    if opened is not None:
        outcomes = _open_all(opened, [medium for _, medium in there], sampling)
        for (number, medium), outcome in zip(there, outcomes, strict=True):
            if isinstance(outcome, QuestionDropped):
                note(number, outcome.drop.reason.value, outcome.drop.detail)
            else:
                facts[number] = outcome
                result.warnings.extend(f"{medium.path}: {w}" for w in outcome.warnings)
    result.rows_without = seen.with_bad_media()
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
    seen: Seen, facts: Mapping[int, Facts], sampling: FrameSampling, lengths: PromptLengths
) -> array[int]:
    counted: dict[object, int] = {}
    for number, medium in seen.media():
        fact = facts.get(number)
        own = sampling_for(medium, sampling)
        frames = _of_shape(fact.frames, fact.height, fact.width, fact.timestamps) if fact else _largest(own)
        key = (frames.pixels.shape, tuple(np.round(frames.timestamps, 3)))
        if key not in counted:
            counted[key] = lengths.media_tokens(frames)
        seen.set_tokens(number, counted[key])
    return seen.prompt_tokens()


def _largest(sampling: FrameSampling) -> Frames:
    """Frames with as many tokens as the sampling allows."""
    patches = max(1, sampling.max_pixels // PATCH_SIDE**2)
    return _of_shape(sampling.max_frames, PATCH_SIDE, PATCH_SIDE * patches, [999.9] * sampling.max_frames)


def _of_shape(count: int, height: int, width: int, timestamps: Sequence[float]) -> Frames:
    pixels = np.broadcast_to(np.uint8(0), (count, height, width, 3))  # holds one byte
    return Frames(pixels, np.asarray(timestamps, np.float64), np.arange(count, dtype=np.int32))


def _questions(rows: Iterable[ReadRow]) -> Iterator[Question]:
    return (row.outcome for row in rows if isinstance(row.outcome, Question))
