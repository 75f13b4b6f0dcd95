"""Files of any known format → Questions, row by row, each row either kept or dropped with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from videorl.data.adapters import ADAPTERS, Adapter, Draft, Row
from videorl.data.fields import invalid
from videorl.data.media import MediaResolver
from videorl.data.options import read_options, resolve_answer, split_text
from videorl.data.rows import expand, read_rows
from videorl.errors import QuestionDropped, UserError
from videorl.types import Drop, Question

_EXAMPLES = 3


@dataclass(slots=True, frozen=True)
class ReadRow:
    """What became of one row of a file."""

    path: Path
    number: int  # from 1, as in the file
    format: str
    outcome: Question | Drop


@dataclass(slots=True)
class FileReport:
    """What became of one file. `dropped` counts by reason, `examples` holds the first few lines of each."""

    path: Path
    format: str
    read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, row: ReadRow) -> None:
        self.read += 1
        if isinstance(row.outcome, Question):
            self.kept += 1
        else:
            self.drop(row.outcome)

    def drop(self, drop: Drop) -> None:
        self.dropped[drop.reason.value] += 1
        lines = self.examples.setdefault(drop.reason.value, [])
        if len(lines) < _EXAMPLES:
            lines.append(drop.detail)


def read_questions(
    files: Sequence[Path],
    *,
    media_root: Path | None = None,
    remap: Mapping[str, str] | None = None,
    format: str | None = None,
) -> Iterator[ReadRow]:
    """Stream every row of `files` (names, globs or `path@split`), in order; memory does not grow with a file.

    `media_root` is where relative media paths start (unset: the folder of the file that names them); `format` names
    the adapter instead of recognising it from the first row's fields.

    Raises:
        UserError: a file that is missing, unreadable, without rows or of no known format.
    """
    for path in expand(files):
        resolver = MediaResolver(media_root or path.parent, remap or {})
        chosen: Adapter | None = adapter_named(format) if format else None
        number = 0
        for number, row in enumerate(read_rows(path), start=1):
            if isinstance(row, Drop):
                yield ReadRow(path, number, chosen.name if chosen else "", _placed(row, path, number))
                continue
            chosen = chosen or recognise(row, path)
            yield ReadRow(path, number, chosen.name, _read_one(row, chosen, resolver, path, number))
        if number == 0:
            raise UserError(f"{path}: holds no rows; leave it out, or look at what wrote it")


def adapter_named(name: str) -> Adapter:
    """The adapter of a format that the user names.

    Raises:
        UserError: no such format.
    """
    for adapter in ADAPTERS:
        if adapter.name == name:
            return adapter
    raise UserError(f"unknown format {name!r}; known are {', '.join(a.name for a in ADAPTERS)}")


def recognise(row: Row, path: Path) -> Adapter:
    """The first adapter whose fields all stand in the row.

    Raises:
        UserError: none does.
    """
    columns = frozenset(row)
    for adapter in ADAPTERS:
        if adapter.recognises(columns):
            return adapter
    raise UserError(
        f"{path}: no known format has the fields {', '.join(sorted(map(str, columns)))}; "
        f"known formats are {', '.join(a.name for a in ADAPTERS)}"
    )


def _read_one(row: Row, adapter: Adapter, resolver: MediaResolver, path: Path, number: int) -> Question | Drop:
    try:
        missing = sorted(name for name in adapter.fields if name not in row)
        if missing:
            raise invalid(f"{', '.join(missing)} is missing (the file is {adapter.name})")
        return _settle(adapter.draft(row, resolver), path, number)
    except QuestionDropped as dropped:
        return _placed(dropped.drop, path, number)


def _settle(draft: Draft, path: Path, number: int) -> Question:
    if draft.options is None or draft.options == []:
        text, options = split_text(draft.text)
    else:
        text, options = draft.text.strip(), read_options(draft.options, labelled=draft.labelled)
    if not text:
        raise invalid("the question is empty")
    source = draft.source or path.stem
    return Question(
        id=f"{source}/{draft.id or number}",
        task="multiple_choice",
        text=text,
        options=options,
        answer=(draft.resolve or resolve_answer)(draft.answer, options),
        media=draft.media,
        source=source,
        categories=draft.categories,
        given_prompt=draft.given_prompt,
    )


def _placed(drop: Drop, path: Path, number: int) -> Drop:
    return Drop(drop.reason, f"{path}, row {number}: {drop.detail}")
