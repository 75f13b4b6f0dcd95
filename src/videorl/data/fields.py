"""Reading one field of a foreign row: nested arrays, NumPy values, nulls and JSON in a cell become plain values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from videorl.errors import QuestionDropped
from videorl.types import Drop, DropReason


def plain(value: Any) -> Any:
    """NumPy arrays and scalars as Python lists and numbers; anything else as it is."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def as_list(value: Any) -> list[Any]:
    """A sequence field as a list; null is empty, a scalar is a list of one, a cell may hold JSON."""
    value = _from_cell(plain(value))
    if value is None:
        return []
    return [plain(item) for item in value] if isinstance(value, list | tuple) else [value]


def as_mapping(value: Any) -> dict[str, Any]:
    """A struct field without its null keys; anything else is empty."""
    value = _from_cell(plain(value))
    if not isinstance(value, Mapping):
        return {}
    return {str(key): plain(item) for key, item in value.items() if item is not None}


def as_number(value: Any) -> float | None:
    """A number, also when written as text; None for anything else.

    >>> as_number("1.5"), as_number(None), as_number(True)
    (1.5, None, None)
    """
    value = plain(value)
    if value is None or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if np.isfinite(number) else None


def as_index(row: Mapping[str, Any], key: str) -> int:
    """A required 0-based index.

    Raises:
        QuestionDropped: ROW_INVALID.
    """
    number = as_number(row.get(key))
    if number is None or number != int(number):
        raise invalid(f"{key} is {row.get(key)!r}, not a whole number")
    return int(number)


def as_text(row: Mapping[str, Any], key: str) -> str:
    """A required text field.

    Raises:
        QuestionDropped: ROW_INVALID.
    """
    value = plain(row.get(key))
    if isinstance(value, bool) or not isinstance(value, str | int | float) or str(value).strip() == "":
        found = "is missing" if value is None else f"is {value!r}, not a text"
        raise invalid(f"{key} {found}")
    return str(value)


def unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON (an `object_pairs_hook`): of two values under one key Python keeps the last one in silence.

    Raises:
        ValueError: a key stands twice in it.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {repeated!r} stands twice in an object")
    return found


def invalid(detail: str) -> QuestionDropped:
    """The error of a row whose fields are not what its format says."""
    return QuestionDropped(Drop(DropReason.ROW_INVALID, detail))


def _from_cell(value: Any) -> Any:
    """A list or object that a CSV cell (or a string column) holds as JSON."""
    if isinstance(value, str) and value.strip()[:1] in ("[", "{"):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return parsed if isinstance(parsed, list | dict) else value
    return value
