"""A run's files as the viewer reads them. The run may be writing them: a last line without its end is left out.

So is a line that is no JSON object (a disk's or an editor's work): the other ones can still be looked at.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from videorl.config import load_config
from videorl.errors import UserError
from videorl.monitor.steps import steps_of


@dataclass(slots=True, frozen=True)
class RunFiles:
    """A run directory, read only."""

    root: Path
    media_roots: tuple[Path, ...]  # nothing outside them is ever shown

    @classmethod
    def open(cls, root: Path) -> RunFiles:
        """Raises:
        UserError: `root` holds no run.
        """
        if not (root / "config.toml").is_file():
            raise UserError(f"{root}: not a run directory (it has no config.toml)")
        data = load_config(root / "config.toml").data
        roots = [data.media_root] if data.media_root else [path.parent for path in data.train]
        return cls(root, tuple(dict.fromkeys(path.resolve() for path in roots)))

    def status(self) -> dict[str, Any]:
        try:
            tree = json.loads((self.root / "status.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return tree if isinstance(tree, dict) else {}

    def metrics(self) -> list[dict[str, Any]]:
        return list(_lines(self.root / "metrics.jsonl"))

    def events(self, last: int) -> list[dict[str, Any]]:
        """The newest first; those of single groups and updates are left out."""
        told = [event for event in _lines(self.root / "events.jsonl") if event.get("kind") not in ("group", "update")]
        return told[: -last - 1 : -1]

    def steps(self) -> list[int]:
        """Fit steps that have rollouts, ascending."""
        return steps_of((self.root / "rollouts").glob("step-*.jsonl"))

    def rollouts(self, step: int) -> list[dict[str, Any]]:
        return list(_lines(self.root / "rollouts" / f"step-{step:06d}.jsonl")) if step in self.steps() else []

    def media(self, step: int, line: int, index: int) -> Path | None:
        """The medium of a recorded response, if it is a file under a media root."""
        rollouts = self.rollouts(step)
        if not 0 <= line < len(rollouts):
            return None
        media = rollouts[line].get("media")
        if not isinstance(media, list) or not 0 <= index < len(media):
            return None
        try:
            path = Path(str(media[index])).resolve()
            return path if path.is_file() and any(path.is_relative_to(root) for root in self.media_roots) else None
        except (OSError, ValueError, RuntimeError):  # what no file can be called, links in a circle
            return None


@dataclass(slots=True, frozen=True)
class ShownGroup:
    """A question's responses in one fit step."""

    question: str
    first_line: int  # of its responses, in the step's file
    responses: Sequence[dict[str, Any]]


def groups_of(rollouts: Sequence[dict[str, Any]]) -> list[ShownGroup]:
    """Neighbouring responses of the same question and epoch."""
    groups, line = [], 0
    for (question, _), members in groupby(rollouts, key=lambda r: (r.get("question", ""), r.get("epoch"))):
        responses = list(members)
        groups.append(ShownGroup(str(question), line, responses))
        line += len(responses)
    return groups


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError, RecursionError):
                    if line.endswith("\n") and isinstance(tree := json.loads(line), dict):
                        yield tree
    except FileNotFoundError:
        return
