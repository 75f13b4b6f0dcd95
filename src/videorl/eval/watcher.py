"""Evaluates a run's checkpoints as they complete.

    base, checkpoints/step-N/COMPLETE ──► pin hf (hard links) ──► evaluate ──► report ──► trajectory, keeper
          ▲                                                                                    │
          └── until the run has finished and nothing is left, or shows no life ◄───────────────┘

Invariant: what has been evaluated stands in reports, so a watcher that starts again goes on. A model is evaluated from
its pin, which stays when the run deletes the checkpoint; the keeper's pin is kept, the others are removed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from videorl.errors import VideorlError
from videorl.eval.run_folder import RunFolder
from videorl.eval.trajectory import choose_keeper, read_trajectory, write_trajectory

_POLL = 2.0  # seconds between two looks at the run

# Evaluates a model folder into an output folder; false: the report is incomplete.
EvaluateModel = Callable[[Path, Path], Awaitable[bool]]


@dataclass(slots=True)
class Watcher:
    """One watch over one run."""

    run: RunFolder
    every: int
    base: Path
    evaluate: EvaluateModel
    say: Callable[[str], None]
    patience: float  # seconds without a sign of life from the run
    validation: str | None = None  # the file that chooses the keeper, where one is given
    _seen: set[int] = field(default_factory=set)
    _incomplete: set[int] = field(default_factory=set)

    async def watch(self) -> None:
        """Evaluate until the run has finished and every due step is done.

        Raises:
            VideorlError: the run shows no life, or an evaluation is incomplete at the end.
        """
        while True:
            finished = self.run.state() == "finished"  # read before the checkpoints: none can come after it
            due = [step for step in self.due(finished) if step not in self._seen]
            for step in due:
                await self._evaluate(step)
            if not due:
                if finished:
                    break
                self._check_life()
                await asyncio.sleep(_POLL)
        if self._incomplete:
            raise VideorlError(f"incomplete evaluations: steps {sorted(self._incomplete)}; watch again to retry them")

    def due(self, finished: bool) -> list[int]:
        """The base, every `every`-th checkpoint, and the last one of a run that has finished."""
        steps = self.run.steps()
        last = steps[-1:] if finished else []
        return sorted({0, *(step for step in steps if step % self.every == 0), *last})

    async def _evaluate(self, step: int) -> None:
        self._seen.add(step)
        try:
            model = self.base if step == 0 else pin(self.run.model(step), self.run.pin(step))
        except FileNotFoundError:
            self.say(f"step {step}: its checkpoint was deleted before it could be evaluated")
            return
        self.say(f"step {step}: evaluating")
        if not await self.evaluate(model, self.run.evaluation(step)):
            self._incomplete.add(step)
        self._conclude()

    def _conclude(self) -> None:
        points = read_trajectory(self.run, validated=self.validation is not None)
        keeper = choose_keeper(points, self.validation)
        if keeper:
            self.run.write_keeper(keeper)
        write_trajectory(self.run, points, keeper)
        for folder in self.run.evaluations.glob("step-*/model"):
            if keeper is None or folder != self.run.pin(keeper.step):
                shutil.rmtree(folder)

    def _check_life(self) -> None:
        silent = time.time() - self.run.last_sign_of_life()
        if silent > self.patience:
            raise VideorlError(
                f"{self.run.path}: the run is {self.run.state() or 'not started'} and has shown no life for "
                f"{silent:.0f} s; watch again when it goes on"
            )


def pin(model: Path, to: Path) -> Path:
    """A copy of a model folder that costs no space (hard links, where the file system has them).

    Raises:
        FileNotFoundError: the folder went away meanwhile.
    """
    if to.is_dir():
        return to
    draft = to.with_name(to.name + ".partial")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        shutil.copytree(model, draft, copy_function=_link)
    except shutil.Error as error:  # files that vanished between listing and linking
        raise FileNotFoundError(str(error)) from None
    draft.rename(to)
    return to


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copy2(source, target)
