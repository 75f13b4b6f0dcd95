"""The fit step that a name in a run directory carries: step-000020, step-000020.jsonl."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_NAME = re.compile(r"step-(\d+)(?:\.jsonl)?")


def steps_of(paths: Iterable[Path]) -> list[int]:
    """Their steps, ascending; what a person laid beside them (step-20-old) is none."""
    return sorted(int(match.group(1)) for path in paths if (match := _NAME.fullmatch(path.name)))
