"""Scripted engines, rolls and trainers on a clock that jumps, for the loop alone."""

from __future__ import annotations

import asyncio
import json
import random
import selectors
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console

from videorl.algo.advantage import advantages
from videorl.config.schema import Config
from videorl.monitor.console import RunConsole
from videorl.monitor.monitor import Monitor
from videorl.orchestration.controller import Controller
from videorl.orchestration.ledger import Counts, Ledger
from videorl.orchestration.run_dir import RunDir
from videorl.orchestration.run_state import RunState
from videorl.orchestration.stopping import StopSignal
from videorl.types import (
    Drop,
    DroppedQuestion,
    DropReason,
    Group,
    IssuedQuestion,
    Prompt,
    Question,
    Rollout,
    Sampling,
    Score,
    ScoredRollout,
    UpdateBatch,
    UpdateReport,
    WeightHandle,
)

T = TypeVar("T")

# ── a clock that jumps ──────────────────────────────────────────────────────────────────────────────────────────────


class _JumpingSelector(selectors.DefaultSelector):
    """Where a loop would sleep, its time jumps to the next timer."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("deadlock: every task waits and no timer is set")
            self.now += timeout
        return events


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """At once: a thread would be overtaken by the jumping clock."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def run_jumping(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end in no time."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main)


# ── data ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def question(number: int) -> Question:
    return Question(f"toy/{number}", "multiple_choice", "Which?", ("yes", "no"), 0, (), "toy")


class ToyOrder:
    """`size` questions, the same order in each epoch."""

    def __init__(self, size: int) -> None:
        self._questions = [question(i) for i in range(size)]

    def __len__(self) -> int:
        return len(self._questions)

    def question(self, index: int) -> Question:
        return self._questions[index]

    def order(self, epoch: int) -> np.ndarray:
        return np.arange(len(self))


def rollout(versions: Sequence[int], length: int | None = None) -> Rollout:
    count = len(versions)
    return Rollout(
        token_ids=np.arange(count, dtype=np.int32),
        logprobs=np.full(count, -1.0, dtype=np.float32),
        versions=np.array(versions, dtype=np.int32),
        text="a " * count,
        finish_reason="stop",
    )


def scored(score: float | None, versions: Sequence[int] = (0, 0), drop: Drop | None = None) -> ScoredRollout:
    worth = None if score is None else Score(score, score, 1.0, "A")
    return ScoredRollout(rollout(versions), worth, drop)


def group(
    number: int = 0,
    scores: Sequence[float | None] = (1.0, 0.0),
    versions: Sequence[int] = (0, 0),
    epoch: int = 0,
    issued_version: int = 0,
) -> Group:
    bad = Drop(DropReason.UNSCORABLE, "no score")
    return Group(
        issued=IssuedQuestion(epoch, number, question(number)),
        prompt=Prompt("?", np.zeros(1, np.int32), np.zeros(3, np.int32), ()),
        responses=tuple(scored(s, versions, bad if s is None else None) for s in scores),
        issued_version=issued_version,
        seconds=1.0,
    )


def toy_config(run_dir: Path, **sections: dict[str, Any]) -> Config:
    tree: dict[str, Any] = {
        "run": {"dir": run_dir},
        "model": {"path": "/models/toy"},
        "data": {"train": ["/data/toy.parquet"], "max_bad_share": 1.0, "max_prompt_tokens": 8},
        "rollout": {"max_response_tokens": 8},
        "trainer": {"prompts_per_update": 4, "updates_per_step": 2, "token_budget": 16},
        "cluster": {"devices_per_node": 4},
    }
    for name, values in sections.items():
        tree[name.rstrip("_")] = {**tree.get(name.rstrip("_"), {}), **values}
    return Config.model_validate(tree)


# ── scripted parts ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Watch:
    """What an onlooker of engines and trainer notes down, independently of the controller's own accounting."""

    held: set[str] = field(default_factory=set)  # outstanding
    most_held: int = 0
    sampling: int = 0
    made: dict[str, Group] = field(default_factory=dict)
    trained: list[tuple[str, int]] = field(default_factory=list)  # key, version
    spent: list[str] = field(default_factory=list)
    sampling_in_updates: int = 0  # the most that was in the engines while the trainer computed

    def issued(self, key: str) -> None:
        self.held.add(key)
        self.most_held = max(self.most_held, len(self.held))


class ScriptedEngine:
    """Its weights are its version."""

    def __init__(self, name: str, load_seconds: float = 0.1) -> None:
        self.name = name
        self.weights = 0
        self._load_seconds = load_seconds

    async def generate(self, request_id: str, prompt: Prompt, n: int, sampling: Sampling) -> list[Rollout]:
        raise NotImplementedError("ScriptedRolls samples")

    async def load_weights(self, handle: WeightHandle) -> None:
        await asyncio.sleep(self._load_seconds)
        self.weights = handle.version

    async def version(self) -> int:
        return self.weights

    async def close(self) -> None: ...


class ScriptedRolls:
    """Prepares and samples for as long as `seconds(key)` says; each token carries its engine's version."""

    def __init__(
        self,
        engines: Sequence[ScriptedEngine],
        watch: Watch,
        seconds: Callable[[str], tuple[float, float]],
        drop: Callable[[str], DropReason | None] = lambda key: None,
        scores: Callable[[str], Sequence[float]] = lambda key: (1.0, 0.0),
    ) -> None:
        self._engines = engines
        self._watch = watch
        self._seconds = seconds
        self._drop = drop
        self._scores = scores

    async def run(self, issued: IssuedQuestion, version: Callable[[], int]) -> Group | DroppedQuestion:
        self._watch.issued(issued.key)
        preparing, sampling = self._seconds(issued.key)
        await asyncio.sleep(preparing)
        reason = self._drop(issued.key)
        if reason:
            self._watch.held.discard(issued.key)
            return DroppedQuestion(issued, Drop(reason, f"{issued.key} is bad"))
        engine = self._engines[issued.position % len(self._engines)]
        at = version()
        self._watch.sampling += 1
        versions = []
        for _ in range(3):
            versions.append(engine.weights)
            await asyncio.sleep(sampling / 3)
        self._watch.sampling -= 1
        made = Group(
            issued=issued,
            prompt=Prompt("?", np.zeros(1, np.int32), np.zeros(3, np.int32), ()),
            responses=tuple(scored(score, versions) for score in self._scores(issued.key)),
            issued_version=at,
            seconds=preparing + sampling,
        )
        self._watch.made[issued.key] = made
        return made


class ScriptedTrainer:
    """Takes its time; its weights are a count of updates."""

    def __init__(self, watch: Watch, seconds: Callable[[UpdateBatch], float] = lambda batch: 1.0) -> None:
        self._watch = watch
        self._seconds = seconds
        self.batches: list[UpdateBatch] = []
        self.updates = 0
        self.loaded: Path | None = None

    async def update(self, batch: UpdateBatch) -> UpdateReport:
        seconds = self._seconds(batch)
        for _ in range(4):
            self._watch.sampling_in_updates = max(self._watch.sampling_in_updates, self._watch.sampling)
            await asyncio.sleep(seconds / 4)
        self.batches.append(batch)
        if not batch.groups:
            return UpdateReport(False, "no_advantage", None, 1e-6, 0.0, {}, {}, seconds)
        self.updates += 1
        return UpdateReport(
            True, "", 0.5, 1e-6, 0.1, {"logprob/max_diff": 1e-5}, {"tokens": batch.denominator}, seconds
        )

    async def stage_weights(self, version: int) -> WeightHandle:
        return WeightHandle(version, "shm", "/nowhere")

    async def send_weights(self, handle: WeightHandle) -> None: ...

    async def release_weights(self, handle: WeightHandle) -> None:
        self._watch.held.difference_update(self._watch.spent)
        self._watch.spent.clear()

    async def save(self, folder: Path) -> None:
        (folder / "trainer").mkdir()
        (folder / "hf").mkdir()
        (folder / "trainer" / "updates").write_text(str(self.updates))

    async def load(self, folder: Path) -> None:
        self.loaded = folder
        self.updates = int((folder / "trainer" / "updates").read_text())

    async def close(self) -> None: ...


class WatchedMonitor(Monitor):
    """The run's own monitor; the onlooker learns from it which groups were trained."""

    watch: Watch

    def groups(self, step: int, version: int | None, groups: Sequence[Group]) -> None:
        super().groups(step, version, groups)
        if version is None:
            return
        for g in groups:
            self.watch.trained.append((g.issued.key, version))
            self.watch.spent.append(g.issued.key)


# ── a whole run ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Ran:
    """What a run left."""

    root: Path
    watch: Watch
    trainer: ScriptedTrainer
    counts: Counts

    def metrics(self) -> list[dict[str, Any]]:
        return read_lines(self.root / "metrics.jsonl")

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [e for e in read_lines(self.root / "events.jsonl") if e["kind"] == kind]

    def status(self) -> dict[str, Any]:
        return json.loads((self.root / "status.json").read_text())

    def lag(self, key: str, version: int) -> int:
        return version - min(int(r.rollout.versions[0]) for r in self.watch.made[key].responses)


@dataclass(slots=True)
class Script:
    """How the scripted parts behave."""

    questions: int = 16
    engines: int = 2
    seconds: Callable[[str], tuple[float, float]] = lambda key: (0.1, 1.0)
    update_seconds: Callable[[UpdateBatch], float] = lambda batch: 1.0
    drop: Callable[[str], DropReason | None] = lambda key: None
    scores: Callable[[str], Sequence[float]] = lambda key: (1.0, 0.0)
    meanwhile: Callable[[StopSignal], Coroutine[Any, Any, None]] | None = None
    trainer: type[ScriptedTrainer] = ScriptedTrainer


async def train(config: Config, script: Script) -> Ran:
    """One run as cluster/run.py wires it, of scripted parts."""
    watch = Watch()
    engines = [ScriptedEngine(f"engine {i}", 0.1 + 0.1 * i) for i in range(script.engines)]
    trainer = script.trainer(watch, script.update_seconds)
    console = RunConsole("off", None, 0, Console(quiet=True))
    with RunDir(config) as run_dir, RunState(run_dir.status) as state, StopSignal() as stop:
        resume = run_dir.resume_point()
        ledger = Ledger(run_dir.ledger, ToyOrder(script.questions), config.data.epochs)
        monitor = WatchedMonitor(config.run.dir, advantages, console, [])
        monitor.watch = watch
        controller = Controller(
            config=config,
            run_dir=run_dir,
            state=state,
            stop=stop,
            ledger=ledger,
            rolls=ScriptedRolls(engines, watch, script.seconds, script.drop, script.scores),
            engines=engines,
            trainer=trainer,
            advantages=advantages,
            monitor=monitor,
        )
        aside = asyncio.create_task(script.meanwhile(stop)) if script.meanwhile else None
        try:
            await controller.run(resume)
        finally:
            if aside:
                aside.cancel()
            counts = ledger.counts()
            ledger.close()
            monitor.close()
    return Ran(config.run.dir, watch, trainer, counts)


def ran(config: Config, script: Script) -> Ran:
    return run_jumping(train(config, script))


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def uneven(seed: int, longest: float = 20.0) -> Callable[[str], tuple[float, float]]:
    """Durations with a long tail, the same for a question whenever it is asked."""

    def seconds(key: str) -> tuple[float, float]:
        rng = random.Random(f"{seed} {key}")
        return rng.random(), longest ** rng.random() - 0.9

    return seconds
