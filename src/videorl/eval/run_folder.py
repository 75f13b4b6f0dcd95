"""What evaluation, export and the card read of a run, and how a person names a model in it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from videorl.config import Config, load_config
from videorl.errors import UserError
from videorl.eval.documents import checked, read_object
from videorl.eval.report_file import replace_file
from videorl.monitor.steps import steps_of


@dataclass(slots=True, frozen=True)
class Keeper:
    """The best checkpoint so far. Made by the watcher; read by the run's housekeeping, by export and the card."""

    step: int
    macro_mean: float  # on the benchmarks
    chosen_on: str  # "the benchmarks' macro mean", or the validation file
    criterion: float  # the number that was compared


@dataclass(slots=True, frozen=True)
class RunFolder:
    """A run directory, read only by its files: the run may be going on elsewhere."""

    path: Path

    @property
    def evaluations(self) -> Path:
        return self.path / "eval"

    def config(self) -> Config:
        return load_config(self.path / "config.toml")

    def state(self) -> str:
        """status.json's state; "" where the run has not written it yet."""
        return str(read_object(self.path / "status.json").get("state", ""))

    def steps(self) -> list[int]:
        """Steps of the complete checkpoints, ascending."""
        return steps_of(mark.parent for mark in self.path.glob("checkpoints/step-*/COMPLETE"))

    def last_sign_of_life(self) -> float:
        """When the run last said something, in seconds since 1970."""
        signs = [self.path / "status.json", self.path / "metrics.jsonl", self.path / "config.toml"]
        return max((sign.stat().st_mtime for sign in signs if sign.is_file()), default=0.0)

    def model(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step:06d}" / "hf"

    def evaluation(self, step: int) -> Path:
        return self.evaluations / f"step-{step:06d}"

    def pin(self, step: int) -> Path:
        """Where the watcher keeps a model that the run may delete."""
        return self.evaluation(step) / "model"

    def keeper(self) -> Keeper | None:
        path = self.evaluations / "keeper.json"
        tree = read_object(path)
        return checked(Keeper, tree, path, "a keeper as `videorl eval --watch` writes it") if tree else None

    def write_keeper(self, keeper: Keeper) -> None:
        replace_file(self.evaluations / "keeper.json", json.dumps(asdict(keeper), indent=2) + "\n")


@dataclass(slots=True, frozen=True)
class ModelChoice:
    """A Hugging Face folder and, where it lies in a run, which step of which run it is."""

    folder: Path
    run: RunFolder | None = None
    step: int | None = None

    @property
    def config_file(self) -> Path | None:
        """The resolved config that the weights were trained under, where the folder or its run tells it."""
        if self.run is not None:
            return self.run.path / "config.toml"
        exported = self.folder / "videorl.toml"
        return exported if exported.is_file() else None


def find_model(name: str) -> ModelChoice:
    """A model folder, RUN (its newest checkpoint), RUN@STEP or RUN@keeper.

    Raises:
        UserError: nothing of that name, or the run has no such checkpoint.
    """
    path = Path(name)
    if (path / "config.json").is_file():
        return ModelChoice(path, *_place_in_run(path.resolve()))
    if (path / "hf" / "config.json").is_file():
        return find_model(str(path / "hf"))
    run_name, _, which = name.rpartition("@") if "@" in name else (name, "", "")
    run = RunFolder(Path(run_name))
    if not (run.path / "config.toml").is_file():
        raise UserError(f"{name}: neither a Hugging Face model folder nor a run (RUN, RUN@STEP or RUN@keeper)")
    step = _find_step(run, which)
    folder = run.model(step) if step in run.steps() else run.pin(step)
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: holds no model, though its checkpoint is marked complete; choose another RUN@STEP")
    return ModelChoice(folder, run, step)


def _find_step(run: RunFolder, which: str) -> int:
    steps = run.steps()
    if which == "keeper":
        keeper = run.keeper()
        if keeper is None:
            raise UserError(f"{run.path}: no keeper yet; `videorl eval --watch {run.path}` names one")
        if run.pin(keeper.step).is_dir():
            return keeper.step
        which = str(keeper.step)
    if not steps:
        raise UserError(f"{run.path}: no complete checkpoint in it")
    if not which:
        return steps[-1]
    if not which.isdecimal() or int(which) not in steps:
        raise UserError(f"{run.path}: no complete checkpoint at step {which!r}; there are {', '.join(map(str, steps))}")
    return int(which)


def _place_in_run(folder: Path) -> tuple[RunFolder | None, int | None]:
    """RUN and N of RUN/checkpoints/step-N/hf."""
    checkpoint = folder.parent
    run = RunFolder(checkpoint.parent.parent)
    steps = steps_of([checkpoint])
    if steps and checkpoint.parent.name == "checkpoints" and (run.path / "config.toml").is_file():
        return run, steps[0]
    return None, None
