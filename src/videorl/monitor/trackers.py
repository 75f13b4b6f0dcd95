"""W&B, Trackio and TensorBoard: thin adapters, each imported only where the config names it."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from videorl.errors import UserError
from videorl.types import StepRecord


class Tracker(Protocol):
    """Takes what metrics.jsonl takes."""

    name: str

    def step(self, record: StepRecord) -> None: ...

    def close(self) -> None: ...


def open_tracker(name: str, project: str, run_dir: Path, settings: Mapping[str, Any]) -> Tracker:
    """The tracker called `name`; `settings` is the resolved config, as a tree.

    Raises:
        UserError: its package is missing.
    """
    return _TRACKERS[name](project, run_dir, settings)


class Wandb:
    """A run of Weights & Biases that goes on where the run directory's went on before."""

    name = "wandb"

    def __init__(self, project: str, run_dir: Path, settings: Mapping[str, Any]) -> None:
        identity = hashlib.sha256(str(run_dir).encode()).hexdigest()[:16]
        self._run = _package("wandb").init(
            project=project,
            name=run_dir.name,
            id=identity,
            resume="allow",
            dir=str(run_dir),
            config=dict(settings),
        )

    def step(self, record: StepRecord) -> None:
        self._run.log(_numbers(record), step=record.step)

    def close(self) -> None:
        self._run.finish()


class Trackio:
    """A run of Trackio's local dashboard."""

    name = "trackio"

    def __init__(self, project: str, run_dir: Path, settings: Mapping[str, Any]) -> None:
        self._trackio = _package("trackio")
        self._trackio.init(project=project, name=run_dir.name, config=dict(settings), resume="allow")

    def step(self, record: StepRecord) -> None:
        self._trackio.log(_numbers(record), step=record.step)

    def close(self) -> None:
        self._trackio.finish()


class TensorBoard:
    """Event files in RUN/tensorboard."""

    name = "tensorboard"

    def __init__(self, project: str, run_dir: Path, settings: Mapping[str, Any]) -> None:
        _package("tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(log_dir=str(run_dir / "tensorboard"))
        self._writer.add_text("config", f"project {project}: {dict(settings)}")

    def step(self, record: StepRecord) -> None:
        for name, value in _numbers(record).items():
            self._writer.add_scalar(name, value, global_step=record.step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


_TRACKERS = {tracker.name: tracker for tracker in (Wandb, Trackio, TensorBoard)}


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(
            f"monitor.trackers: {name} cannot be imported ({error}): install it (`pip install {name}`) or leave it out"
        ) from None


def _numbers(record: StepRecord) -> dict[str, float | int]:
    return {name: value for name, value in record.metrics.items() if value is not None} | {"version": record.version}
