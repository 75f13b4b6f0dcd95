"""Fills the frame store ahead of a run, and writes what the run would ask as one normalised file.

rows ─▶ questions ─▶ their media, each once ─▶ threads ─▶ store.load     a hit costs little: a second call goes on
                 └▶ (asked without video) ─▶ OUT.parquet, OUT.dropped.jsonl     which appear when all is done
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from videorl.data.adapters.normalised import normalised_row
from videorl.data.dataset import Dataset, kept_questions
from videorl.data.media import DistinctMedia
from videorl.data.questions import FileReport, ReadRow
from videorl.data.source import FrameSource
from videorl.errors import QuestionDropped, UserError, unwritten
from videorl.types import Drop, DropReason, Media, Question

BLIND = "blind_share"  # the category that holds a question's share of right answers without video
_WRITE_ROWS = 2_048
_MEDIA = {
    **dict.fromkeys(("kind", "path", "limits"), pa.string()),
    **dict.fromkeys(("start", "end"), pa.float64()),
    "frames": pa.list_(pa.string()),
}
_SCHEMA = pa.schema(
    {
        **dict.fromkeys(("videorl_id", "source", "task", "text"), pa.string()),
        "options": pa.list_(pa.string()),
        "answer": pa.int32(),
        "media": pa.list_(pa.struct(_MEDIA)),
        **dict.fromkeys(("categories", "given_prompt"), pa.string()),
    }
)


@dataclass(slots=True)
class Filled:
    """What filling the store did."""

    media: int = 0
    kept: int = 0
    pixel_bytes: int = 0  # uncompressed
    seconds: float = 0.0
    dropped: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)


class Preparation:
    """The questions of some files, on their way into a store and a normalised file."""

    def __init__(self, rows: Iterable[ReadRow]) -> None:
        self._reports: dict[Path, FileReport] = {}
        self._row_drops: list[Drop] = []
        self._dataset = Dataset(kept_questions(rows, self._reports, self._row_drops.append), shuffle=False)
        self._media = DistinctMedia()
        self._media_of = [tuple(map(self._media.number, question.media)) for question in self._all()]
        self._bad: dict[int, Drop] = {}

    @property
    def files(self) -> list[FileReport]:
        return list(self._reports.values())

    def fill(self, source: FrameSource, threads: int, progress: Callable[[int, int], None]) -> Filled:
        """Load every medium once; questions whose media give no frames are no longer among the usable ones."""
        media, begun = self._media.all, time.monotonic()
        filled = Filled(media=len(media))
        with ThreadPoolExecutor(threads) as pool:
            for number, outcome in enumerate(pool.map(lambda medium: _load(source, medium), media)):
                if isinstance(outcome, Drop):
                    self._bad[number] = outcome
                    filled.dropped[outcome.reason.value] += 1
                else:
                    filled.kept += 1
                    filled.pixel_bytes += outcome[0]
                    filled.warnings.extend(outcome[1])
                progress(number + 1, len(media))
        filled.seconds = time.monotonic() - begun
        return filled

    def usable(self) -> Iterator[Question]:
        """Questions whose media all give frames."""
        for question, drop in self._settled():
            if drop is None:
                yield question

    def write(self, file: NormalisedFile, shares: Mapping[str, float], blind_drop: float | None) -> Counter[str]:
        """Write what is kept and what is not; `shares` marks questions, from `blind_drop` on they are dropped.

        Returns:
            How many questions were kept ("kept") and dropped, by reason.
        """
        counts: Counter[str] = Counter()
        for drop in self._row_drops:
            file.drop(drop, None)
            counts[drop.reason.value] += 1
        for question, drop in self._settled():
            share = shares.get(question.id)
            if drop is None and share is not None:
                question = replace(question, categories={**question.categories, BLIND: f"{share:g}"})
                if blind_drop is not None and share >= blind_drop:
                    drop = Drop(DropReason.FILTERED, f"{question.id}: answered without its video ({share:.0%} right)")
            if drop is None:
                file.keep(question)
            else:
                file.drop(drop, question.id)
            counts["kept" if drop is None else drop.reason.value] += 1
        return counts

    def _all(self) -> Iterator[Question]:
        return (self._dataset.question(index) for index in range(len(self._dataset)))

    def _settled(self) -> Iterator[tuple[Question, Drop | None]]:
        for question, numbers in zip(self._all(), self._media_of, strict=True):
            yield question, next((self._bad[number] for number in numbers if number in self._bad), None)


class NormalisedFile:
    """PATH.parquet with the kept questions and PATH.dropped.jsonl with the drops, streamed, whole or not there."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            UserError: not a .parquet name.
            VideorlError: it cannot be written there; every method may say so.
        """
        if path.suffix != ".parquet":
            raise UserError(f"{path}: the normalised file is a parquet; write a name that ends in .parquet")
        self._finals: Sequence[Path] = (path, path.with_suffix(".dropped.jsonl"))
        self._parts = [final.with_name(final.name + ".part") for final in self._finals]
        self._rows: list[object] = []
        self._open = ExitStack()
        with self._whole_or_not_there():
            self._parquet = self._open.enter_context(pq.ParquetWriter(self._parts[0], _SCHEMA))
            self._drops = self._open.enter_context(self._parts[1].open("w", encoding="utf-8"))

    def keep(self, question: Question) -> None:
        self._rows.append(normalised_row(question))
        if len(self._rows) >= _WRITE_ROWS:
            self._flush()

    def drop(self, drop: Drop, question: str | None) -> None:
        line = {"reason": drop.reason.value, "detail": drop.detail, "question": question}
        with self._whole_or_not_there():
            self._drops.write(json.dumps(line, ensure_ascii=False) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed:
            self._discard()
            return
        self._flush()
        with self._whole_or_not_there():
            self._open.close()
            for part, final in zip(self._parts, self._finals, strict=True):
                part.replace(final)

    def _flush(self) -> None:
        with self._whole_or_not_there():
            self._parquet.write_table(pa.Table.from_pylist(self._rows, _SCHEMA))
        self._rows = []

    @contextmanager
    def _whole_or_not_there(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._discard()
            raise unwritten(self._finals[0], error) from None

    def _discard(self) -> None:
        with suppress(OSError):  # closing writes what is left, again onto a full disk
            self._open.close()
        for part in self._parts:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _load(source: FrameSource, medium: Media) -> tuple[int, tuple[str, ...]] | Drop:
    try:
        frames = source.load(source.reference(medium))
        return frames.pixels.nbytes, frames.warnings
    except QuestionDropped as dropped:
        return dropped.drop
