"""JSON files of evaluations and exports, read back into the objects that they were written from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from videorl.errors import UserError

T = TypeVar("T")


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is no file.

    Raises:
        UserError: it cannot be read, or holds something else.
    """
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(tree, dict):
        raise UserError(f"{path}: holds a {type(tree).__name__}, not an object")
    return tree


def checked(kind: type[T], tree: Any, path: Path, wanted: str) -> T:
    """`tree` as a `kind`, whose fields have the types that it declares.

    Raises:
        UserError: the first field that has another one, or is missing.
    """
    try:
        return TypeAdapter(kind).validate_python(tree)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "it"
        raise UserError(f"{path}: not {wanted}: {field}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
