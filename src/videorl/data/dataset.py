"""A run's questions: read once, kept compactly, asked in a seeded order that is new in each epoch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Int64

from videorl.config.schema import DataConfig
from videorl.data.media import unpacked_media
from videorl.data.questions import FileReport, ReadRow, read_questions
from videorl.errors import UserError
from videorl.types import Drop, DropReason, IssuedQuestion, Media, Question


class Dataset:
    """Questions by (epoch, position). 100,000 of them take about as much memory as their text."""

    def __init__(self, questions: Iterable[Question], *, seed: int = 0, shuffle: bool = True) -> None:
        self._seed = seed
        self._shuffle = shuffle
        self._packed = bytearray()  # one JSON document after the other: Python objects would take ten times as much
        self._ends: list[int] = [0]
        self._orders: dict[int, Int64[np.ndarray, "N"]] = {}
        for question in questions:
            packed = json.dumps(question, default=_fields, ensure_ascii=False)
            self._packed += packed.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._packed))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def question(self, index: int) -> Question:
        """The `index`-th question in the files' order."""
        packed = self._packed[self._ends[index] : self._ends[index + 1]]
        return _unpack(json.loads(packed.decode("utf-8", "surrogatepass")))

    def order(self, epoch: int) -> Int64[np.ndarray, "N"]:
        """Which question stands at each position of an epoch: a permutation that depends on seed and epoch only."""
        if not self._shuffle:
            return np.arange(len(self))
        if epoch not in self._orders:
            # Raw bits are stable across NumPy versions, Generator.permutation is not: a resumed run keeps its order.
            bits = np.random.PCG64(np.random.SeedSequence([self._seed, epoch])).random_raw(len(self))
            self._orders = {epoch: np.argsort(bits, kind="stable")}
        return self._orders[epoch]

    def issued(self, epoch: int, position: int) -> IssuedQuestion:
        """The question at `position` of `epoch`."""
        return IssuedQuestion(epoch, position, self.question(int(self.order(epoch)[position])))


def load_dataset(data: DataConfig, seed: int) -> tuple[Dataset, list[FileReport]]:
    """Read the training files of a run; questions whose id was already read are dropped as duplicates.

    Raises:
        UserError: a file that cannot be read, or no question is left.
    """
    rows = read_questions(data.train, media_root=data.media_root, remap=data.remap, format=data.format)
    return gathered(rows, data, seed, "question")


def gathered(rows: Iterable[ReadRow], data: DataConfig, seed: int, what: str) -> tuple[Dataset, list[FileReport]]:
    """The usable rows as a dataset, and what became of each file.

    Raises:
        UserError: no `what` is left.
    """
    reports: dict[Path, FileReport] = {}
    dataset = Dataset(kept_questions(rows, reports), seed=seed, shuffle=data.shuffle)
    if not len(dataset):
        examples = [lines[0] for report in reports.values() for lines in report.examples.values()]
        files = ", ".join(map(str, data.train))
        raise UserError(f"{files}: no {what} is left; {examples[0] if examples else 'there are no rows'}")
    return dataset, list(reports.values())


class Known(Protocol):
    """Hash of an id → hash of what it asks; a dict is one."""

    def get(self, name: int, /) -> int | None: ...

    def __setitem__(self, name: int, content: int, /) -> None: ...


def kept_questions(
    rows: Iterable[ReadRow],
    reports: dict[Path, FileReport],
    on_drop: Callable[[Drop], object] = lambda _: None,
    known: Known | None = None,
) -> Iterator[Question]:
    """The usable questions of `rows`, each under an id of its own; `reports` and `known` (a dict) fill on the way.

    Ids restart in many formats. A second question of the same id is dropped where it is the same question, else it is
    told apart by a number.
    """
    known = {} if known is None else known
    for row in rows:
        report = reports.setdefault(row.path, FileReport(row.path, row.format))
        outcome = row.outcome
        if isinstance(outcome, Question):
            outcome = _told_apart(outcome, known, f"{row.path}, row {row.number}")
        report.add(replace(row, outcome=outcome))
        if isinstance(outcome, Question):
            yield outcome
        else:
            on_drop(outcome)


def _told_apart(question: Question, known: Known, place: str) -> Question | Drop:
    """The question under the first free id; a drop where one of those ids is this very question."""
    clips = tuple((medium.path, medium.start, medium.end) for medium in question.media)
    content = hash((question.text, question.options, question.answer, clips))
    name, number = question.id, 1
    while (asked := known.get(hash(name))) is not None:
        if asked == content:
            return Drop(DropReason.DUPLICATE, f"{place}: the same question as {name} before it")
        number += 1
        name = f"{question.id}#{number}"
    known[hash(name)] = content
    return question if number == 1 else replace(question, id=name)


def _fields(packed: Question | Media) -> dict[str, Any]:
    return {field.name: getattr(packed, field.name) for field in fields(packed)}


def _unpack(packed: dict[str, Any]) -> Question:
    media = tuple(map(unpacked_media, packed["media"]))
    return Question(**packed | {"options": tuple(packed["options"]), "media": media})
