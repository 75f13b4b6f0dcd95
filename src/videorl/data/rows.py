"""Rows of a question file, streamed: parquet, JSON (array, lines or one object of rows), CSV and TSV."""

from __future__ import annotations

import csv
import glob
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from videorl.data.fields import unrepeated
from videorl.errors import UserError
from videorl.types import Drop, DropReason

Row = Mapping[str, Any]

_BATCH_ROWS = 256
_CHUNK_CHARS = 1 << 20
_CELL_CHARS = 1 << 24  # of a CSV file; a quote that is never closed makes a longer one
_SPACE_OR_COMMA = " \t\r\n,"


def expand(files: Sequence[Path]) -> list[Path]:
    """The files that the names stand for, each once, in the order given: a file, a glob, or `path@split`.

    Raises:
        UserError: a name without a file, or a glob without a match.
    """
    found: dict[Path, None] = {}
    for name in files:
        matches = [name] if name.is_file() else _of_split(name) or _glob(str(name))
        if not matches:
            raise UserError(f"{name}: {_why_no_file(name)}")
        found.update(dict.fromkeys(matches))
    return list(found)


def _why_no_file(name: Path) -> str:
    if not name.is_dir():
        return "no file matches this pattern" if glob.has_magic(str(name)) else "no such file"
    kinds = sorted({path.suffix for path in name.iterdir() if path.suffix.lower() in _READERS})
    if not kinds:
        return f"a folder without question files ({', '.join(sorted(_READERS))}); name a file"
    patterns = " or ".join(f"'{name}/*{kind}'" for kind in kinds)
    return f"a folder, not a file; name its files: {patterns}"


def _glob(pattern: str) -> list[Path]:
    matches = glob.glob(pattern, recursive=True)  # noqa: PTH207 - patterns may be absolute
    return sorted(path for match in matches if (path := Path(match)).is_file())


def _of_split(name: Path) -> list[Path]:
    """`folder@train` names the folder's files of that split, `file@train` the file."""
    base, at, split = str(name).rpartition("@")
    if not at:
        return []
    if Path(base).is_file():
        return [Path(base)]
    folder = glob.escape(base)
    named = [*_glob(f"{folder}/{glob.escape(split)}*"), *_glob(f"{folder}/data/{glob.escape(split)}*")]
    return [path for path in named if path.suffix.lower() in _READERS]


def read_rows(path: Path) -> Iterator[Row | Drop]:
    """Every row as a mapping of plain Python values; a row that cannot be parsed on its own is a Drop.

    Raises:
        UserError: the file as a whole is not what its name says.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path}: unknown file type {path.suffix!r}; known are {', '.join(sorted(_READERS))}")
    try:
        yield from reader(path)
    except (OSError, ValueError, pa.ArrowException, csv.Error) as error:  # values that Python cannot hold included
        raise UserError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None


def _parquet(path: Path) -> Iterator[Row]:
    with pq.ParquetFile(path) as file:
        _refuse_repeated(file.schema_arrow.names, path)
        for batch in file.iter_batches(batch_size=_BATCH_ROWS):
            yield from batch.to_pylist()


def _separated(path: Path) -> Iterator[Row | Drop]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    csv.field_size_limit(_CELL_CHARS)
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, delimiter=delimiter, restkey="")
        _refuse_repeated(rows.fieldnames or (), path)
        for row in rows:
            if "" in row or None in row.values():
                yield Drop(DropReason.ROW_INVALID, "not as many cells as the header has columns")
            else:
                yield {key: cell if cell != "" else None for key, cell in row.items()}


def _json_lines(path: Path) -> Iterator[Row | Drop]:
    with path.open(encoding="utf-8-sig") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                yield _as_row(_JSON.decode(line))
            except json.JSONDecodeError as error:
                yield Drop(DropReason.ROW_INVALID, f"not valid JSON: {error.msg} at column {error.colno}")
            except (ValueError, RecursionError) as error:  # a number of too many digits, nested too deeply
                yield Drop(DropReason.ROW_INVALID, f"not readable JSON: {error}")


def _json(path: Path) -> Iterator[Row | Drop]:
    """An array of rows, rows one after the other, or one object whose values are rows."""
    with path.open(encoding="utf-8-sig") as file:
        values = _json_values(file, path)
        head = list(islice(values, 2))
        if len(head) == 1 and isinstance(head[0], dict) and head[0]:
            head = _unnested(head[0]) if all(isinstance(value, dict) for value in head[0].values()) else head
        yield from (_as_row(value) for value in chain(head, values))


def _unnested(table: Mapping[str, Row]) -> list[Any]:
    """The rows of one object of rows; PerceptionTest's own object has videos, each with a list of questions."""
    if not any("mc_question" in row for row in table.values()):
        return list(table.values())
    questions = ((video, asked) for video, row in table.items() for asked in row.get("mc_question") or [])
    return [asked | {"video_id": video} if isinstance(asked, dict) else asked for video, asked in questions]


def _json_values(file: IO[str], path: Path) -> Iterator[Any]:
    """The elements of a top-level array, or values that follow each other, without holding the file in memory."""
    buffer, at, in_array, more = "", 0, False, True
    while True:
        while at < len(buffer) and buffer[at] in _SPACE_OR_COMMA:
            at += 1
        if at < len(buffer) and buffer[at] in "[]":  # the array's own brackets; rows are objects
            in_array = buffer[at] == "["
            at += 1
            continue
        try:
            if at < len(buffer):
                value, at = _JSON.raw_decode(buffer, at)
                yield value
                continue
        except json.JSONDecodeError as error:
            if not more:
                near = buffer[at : at + 40].replace("\n", " ")
                raise UserError(f"{path}: not valid JSON near {near!r}: {error.msg}") from None
        except (ValueError, RecursionError) as error:  # a number of too many digits, nested too deeply
            raise UserError(f"{path}: not readable JSON: {error}") from None
        if not more:
            if in_array:
                raise UserError(f"{path}: not valid JSON: the array is not closed (is the file cut off?)")
            return
        chunk = file.read(_CHUNK_CHARS)
        buffer, at, more = buffer[at:] + chunk, 0, bool(chunk)


def _refuse_repeated(columns: Sequence[str], path: Path) -> None:
    """Of two columns of one name a mapping would hold the last one only."""
    if repeated := [name for name, count in Counter(columns).items() if count > 1]:
        raise UserError(f"{path}: has more than one column {repeated[0]!r}; give each a name of its own")


_JSON = json.JSONDecoder(object_pairs_hook=unrepeated)


def _as_row(value: Any) -> Row | Drop:
    return (
        value if isinstance(value, dict) else Drop(DropReason.ROW_INVALID, f"a {type(value).__name__}, not an object")
    )


_READERS = {
    ".parquet": _parquet,
    ".json": _json,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".csv": _separated,
    ".tsv": _separated,
}
