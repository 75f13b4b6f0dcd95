"""A benchmark: question files under a name, with filters that are explicit.

Nothing of a file gets lost: a row is asked, or left out by a filter that the report names, or (where it cannot be read)
counted as failed.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from videorl.data.questions import read_questions
from videorl.errors import UserError
from videorl.types import DropReason, Media, Question

# Where the projects' own downloads put the videos, below the media root.
_VIDEO_FOLDERS = ("", "data", "videos", "video", "videos_cropped", "Benchmark/videos", "benchmark/videos")
_SUBTITLE_FOLDERS = ("subtitle", "subtitles", "")
_NAME = re.compile(r"[^/\0]{1,100}")
_LEFT_OUT = frozenset({DropReason.NOT_MULTIPLE_CHOICE, DropReason.DUPLICATE, DropReason.FILTERED})


@dataclass(slots=True, frozen=True)
class Unreadable:
    """A row that is no question. It counts as failed."""

    id: str
    error: str


@dataclass(slots=True, frozen=True)
class Benchmark:
    """What is asked. Made by `load_benchmark`; read by the runner."""

    name: str
    path: Path
    format: str
    questions: tuple[Question, ...]
    unreadable: tuple[Unreadable, ...]
    filters: tuple[str, ...]  # what was left out and why, in words

    @property
    def rows(self) -> int:
        return len(self.questions) + len(self.unreadable)


def parse_benchmarks(pairs: Iterable[str], option: str = "--benchmark") -> dict[str, Path]:
    """NAME=PATH options; a path may be a pattern that stands for several files.

    Raises:
        UserError: not NAME=PATH, or a name given twice.
    """
    found: dict[str, Path] = {}
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise UserError(f"{option} {pair}: write NAME=PATH, for example video-mme=test.parquet")
        if name in found:
            raise UserError(f"{option} {pair}: {name} is given twice")
        found[name] = Path(path)
    return found


def load_benchmark(
    name: str,
    path: Path,
    *,
    media_root: Path | None = None,
    remap: Mapping[str, str] | None = None,
    all_rows: bool = False,
) -> Benchmark:
    """Read every row of the files of any known format that `path` stands for.

    Args:
        media_root: where its videos lie, directly or as the benchmark's own download arranges them; None: beside it.
        all_rows: switch the benchmark's own filter off.

    Raises:
        UserError: a name that no file can carry, no known format, or no row left to ask.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"benchmark {name[:100]!r}: it stands in file names; give it 1 to 100 characters without /")
    questions: list[Question] = []
    unreadable: list[Unreadable] = []
    left_out: Counter[str] = Counter()
    format_name = ""
    for row in read_questions([path], media_root=media_root, remap=remap):
        format_name = row.format
        if isinstance(row.outcome, Question):
            questions.append(_placed(row.outcome, media_root or row.path.parent, name))
        elif row.outcome.reason in _LEFT_OUT:
            left_out[row.outcome.reason.value] += 1
        else:
            error = f"{row.outcome.reason.value}: {row.outcome.detail}"
            unreadable.append(Unreadable(f"{row.path.stem}/row {row.number}", error))
    filters = [f"{count} rows left out: {reason}" for reason, count in left_out.items()]
    own_filter = _FILTERS.get(format_name)
    if own_filter is not None:
        questions, text = (questions, f"all {len(questions)} rows") if all_rows else own_filter(questions)
        filters.append(text)
    asked = tuple(_distinct_ids(questions))
    benchmark = Benchmark(name, path, format_name, asked, tuple(unreadable), tuple(filters))
    if benchmark.rows == 0:
        raise UserError(f"{path}: no row to ask in it ({'; '.join(filters) or 'it is empty'})")
    return benchmark


def find_subtitles(question: Question, media_root: Path) -> Path | None:
    """The .srt file that belongs to a question's video."""
    stem = Path(question.media[0].path).stem if question.media else ""
    places = (media_root / folder / f"{stem}.srt" for folder in _SUBTITLE_FOLDERS)
    return next((path for path in places if stem and _there(path)), None)


# ── filters ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _perceptioncomp_filter(questions: list[Question]) -> tuple[list[Question], str]:
    """The reference's rows: without those that repeat an earlier one and those with more than five options."""
    seen: set[tuple[object, ...]] = set()
    kept: list[Question] = []
    repeated = many = 0
    for question in questions:
        identity = (question.text, question.options, question.answer, *(m.path for m in question.media))
        if identity in seen:
            repeated += 1
        elif len(question.options) > 5:
            many += 1
        else:
            kept.append(question)
        seen.add(identity)
    text = f"{len(kept)} of {len(questions)} rows: {repeated} repeat an earlier row, {many} with more than five options"
    return kept, f"{text} (--all-rows asks all)"


_FILTERS: dict[str, Callable[[list[Question]], tuple[list[Question], str]]] = {"perceptioncomp": _perceptioncomp_filter}


# ── ids and places ──────────────────────────────────────────────────────────────────────────────────────────────────


def _distinct_ids(questions: Iterable[Question]) -> Iterable[Question]:
    """An id that a file gives to several rows gets a number from its second use on."""
    uses: Counter[str] = Counter()
    for question in questions:
        uses[question.id] += 1
        count = uses[question.id]
        yield question if count == 1 else replace(question, id=f"{question.id}#{count}")


def _placed(question: Question, root: Path, name: str) -> Question:
    """The question with its media where they are, when they are not directly under the root."""
    return replace(question, media=tuple(_find(medium, root, name) for medium in question.media))


def _find(medium: Media, root: Path, name: str) -> Media:
    path = Path(medium.path)
    if medium.frames or _there(path) or not path.is_relative_to(root.absolute()):
        return medium
    inside = path.relative_to(root.absolute())
    for place in (root.absolute(), root.absolute() / name):
        for folder in _VIDEO_FOLDERS:
            if _there(candidate := place / folder / inside):
                return replace(medium, path=str(candidate))
    return medium  # missing: the row fails, and says so


def _there(path: Path) -> bool:
    """False also of a name that no file can have, where Path raises."""
    return os.path.exists(path)  # noqa: PTH110
