"""A file of JSON lines that stays readable whatever happens to its writer.

Invariant: the file ends with a whole line. Each line is one write(2), so a killed process leaves none half written; a
line of which a full disk took only a part is cut off again before the fault is raised.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from videorl.errors import VideorlError

# What str.splitlines takes for the end of a line and JSON would leave as it is.
_LINE_ENDS = {ord(c): f"\\u{ord(c):04x}" for c in "\x85\u2028\u2029"}


class JsonlFile:
    """Appends; the only writer of its file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._fault(error) from None

    def append(self, tree: Mapping[str, Any]) -> None:
        """Write one line.

        Raises:
            VideorlError: it could not be written whole (disk full); the file is as it was before.
        """
        line = to_json(tree).encode("utf-8", "backslashreplace") + b"\n"
        size = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, line)
            if written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
            raise self._fault(error) from None

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _fault(self, error: OSError) -> VideorlError:
        return VideorlError(f"{self._path}: cannot be written: {error.strerror or error}")


def to_json(tree: Mapping[str, Any]) -> str:
    """One line of strict JSON; a number that is not finite is null."""
    text = json.dumps(_strict(tree), ensure_ascii=False, allow_nan=False)
    return text.translate(_LINE_ENDS)


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if hasattr(value, "item"):  # a NumPy scalar
        return _strict(value.item())
    return str(value)
