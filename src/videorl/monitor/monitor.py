"""Where a run writes what a person sees: its files always, the console and trackers beside them.

The files are the record. A tracker that fails is named in events.jsonl and left out from then on; the run goes on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from videorl.config.schema import Config
from videorl.monitor.console import RunConsole
from videorl.monitor.jsonl import JsonlFile
from videorl.monitor.recorder import Advantages, rollout_lines
from videorl.monitor.trackers import Tracker, open_tracker
from videorl.types import Group, StepRecord


class Monitor:
    """The run directory's metrics.jsonl, events.jsonl and rollouts/. Use as a context manager.

    Every method raises VideorlError, in one line, where a file cannot be written.
    """

    def __init__(self, root: Path, advantages: Advantages, console: RunConsole, trackers: Sequence[Tracker]) -> None:
        (root / "rollouts").mkdir(parents=True, exist_ok=True)
        self._root = root
        self._advantages = advantages
        self._console = console
        self._trackers = list(trackers)
        self._metrics = JsonlFile(root / "metrics.jsonl")
        self._events = JsonlFile(root / "events.jsonl")
        self._rollouts: tuple[int, JsonlFile] | None = None  # those of the fit step under way
        self._shown_step = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def event(self, kind: str, step: int | None = None, **facts: object) -> None:
        """Something that happened: one line of events.jsonl. `step`: the fit step under way; None: it outlives it."""
        self._events.append({"time": time.time(), "kind": kind, "step": step, **facts})
        self._console.event(kind, facts)

    def groups(self, step: int, version: int | None, groups: Sequence[Group]) -> None:
        """Groups that fit step `step` trained at `version`, or dropped whole (None): a line for each response."""
        file = self._rollouts_of(step)
        for group in groups:
            for line in rollout_lines(step, version, group, self._advantages):
                file.append(line)
        if step != self._shown_step:
            self._shown_step = step
            self._console.groups(step, groups)

    def step(self, record: StepRecord) -> None:
        """A fit step that is done: one line of metrics.jsonl."""
        self._metrics.append({"step": record.step, "version": record.version, "time": time.time(), **record.metrics})
        self._console.step(record)
        for tracker in list(self._trackers):
            self._tell(tracker, record)

    def close(self) -> None:
        self._console.close()
        for tracker in list(self._trackers):
            self._tell(tracker, None)
        self._trackers.clear()
        for file in (self._metrics, self._events, *([self._rollouts[1]] if self._rollouts else [])):
            file.close()

    def _tell(self, tracker: Tracker, record: StepRecord | None) -> None:
        """Hand a tracker a fit step, or the end. Its own fault must not end the run."""
        try:
            tracker.step(record) if record else tracker.close()
        except Exception as error:
            self._trackers.remove(tracker)
            self.event("tracker_failed", record.step if record else None, tracker=tracker.name, error=str(error))

    def _rollouts_of(self, step: int) -> JsonlFile:
        if self._rollouts is None or self._rollouts[0] != step:
            if self._rollouts is not None:
                self._rollouts[1].close()
            self._rollouts = (step, JsonlFile(self._root / "rollouts" / f"step-{step:06d}.jsonl"))
        return self._rollouts[1]


def open_monitor(config: Config, advantages: Advantages) -> Monitor:
    """The monitor that `config.monitor` asks for, on standard error (standard output is for documents).

    Raises:
        UserError: a tracker's package is missing.
    """
    settings = config.model_dump(mode="json")
    chosen = config.monitor
    trackers = [open_tracker(name, chosen.project, config.run.dir, settings) for name in chosen.trackers]
    console = RunConsole(chosen.console, config.run.max_steps, chosen.rollout_samples, Console(stderr=True))
    return Monitor(config.run.dir, advantages, console, trackers)
