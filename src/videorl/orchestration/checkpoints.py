"""RUN/checkpoints: a folder is a checkpoint if and only if it holds COMPLETE.

    begin ──► the trainer writes trainer/ and hf/ ──► commit: state.json ──► all of it to disk ──► COMPLETE

Invariant: COMPLETE is the last file to be written and the first to be removed, so a crash at any moment leaves a whole
checkpoint or a folder that the next start clears away.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from videorl.errors import VideorlError
from videorl.monitor.steps import steps_of
from videorl.orchestration.files import to_disk

COMPLETE = "COMPLETE"
STATE = "state.json"


@dataclass(slots=True, frozen=True)
class RunPoint:
    """Where a run stood when a checkpoint was written: its state.json."""

    step: int
    version: int
    trained: int  # questions, by the ledger, to recognise a ledger that does not belong to the checkpoint
    dropped: int


@dataclass(slots=True, frozen=True)
class Checkpoint:
    folder: Path
    point: RunPoint


class Checkpoints:
    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, step: int) -> Path:
        return self._root / f"step-{step:06d}"

    def steps(self) -> list[int]:
        """The steps of the complete ones, oldest first."""
        return steps_of(mark.parent for mark in self._root.glob(f"step-*/{COMPLETE}"))

    def last(self) -> Checkpoint | None:
        """The newest complete one.

        Raises:
            VideorlError: its state.json cannot be read.
        """
        steps = self.steps()
        if not steps:
            return None
        folder = self.folder(steps[-1])
        try:
            point = RunPoint(**json.loads((folder / STATE).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise VideorlError(
                f"{folder / STATE}: cannot be read: {error}; move {folder} away to go on from the one before it"
            ) from None
        return Checkpoint(folder, point)

    def clear_incomplete(self) -> list[Path]:
        """Remove what a crash left half written; the folders that were removed."""
        leftovers = [folder for folder in self._root.glob("step-*") if not (folder / COMPLETE).exists()]
        for folder in leftovers:
            shutil.rmtree(folder)
        return leftovers

    def begin(self, step: int) -> Path:
        """An empty folder for the checkpoint after fit step `step`."""
        folder = self.folder(step)
        folder.mkdir(parents=True)
        return folder

    def commit(self, point: RunPoint) -> None:
        """Make what lies in the folder of `point.step` a checkpoint that outlives a power cut."""
        folder = self.folder(point.step)
        (folder / STATE).write_text(json.dumps(asdict(point), indent=2) + "\n", encoding="utf-8")
        for path in (*folder.rglob("*"), folder, self._root):
            to_disk(path)
        (folder / COMPLETE).touch()
        for path in (folder / COMPLETE, folder):
            to_disk(path)

    def prune(self, keep: int, keeper: int | None) -> list[int]:
        """Remove all but the newest `keep` and the keeper; the steps that were removed."""
        gone = [step for step in self.steps()[:-keep] if step != keeper]
        for step in gone:
            (self.folder(step) / COMPLETE).unlink()
            shutil.rmtree(self.folder(step))
        return gone
