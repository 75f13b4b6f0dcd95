"""One run, wired: every component is made here and handed to the others.

    run directory ─ monitor ─ ledger ─ dataset          this process
    rollouter ─ controller ─ frame store
    trainer ranks ─ rollout replicas                    actors on the cluster's devices

`run` is reinforcement learning. `run_supervised` is the same loop with given responses in the place of sampled ones:
no replica, another objective.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from transformers import AutoTokenizer

from videorl.algo.advantage import advantages, equal_weights
from videorl.cluster.engines import replicas
from videorl.cluster.placement import Placement, placed, resolve_device
from videorl.cluster.trainer import TrainerJob, trainer
from videorl.config.schema import Config
from videorl.data.conversations import load_demonstrations
from videorl.data.dataset import Dataset, load_dataset
from videorl.data.prompt import PromptBuilder
from videorl.data.questions import FileReport
from videorl.data.store import FrameStore
from videorl.data.templates import as_given, template_named
from videorl.data.tokens import TokenRules
from videorl.monitor.monitor import Monitor, open_monitor
from videorl.monitor.recorder import Advantages
from videorl.orchestration.calls import first_fault
from videorl.orchestration.checkpoints import Checkpoint
from videorl.orchestration.controller import Controller, Rolls
from videorl.orchestration.ledger import Ledger
from videorl.orchestration.run_dir import RunDir
from videorl.orchestration.run_state import RunState
from videorl.orchestration.stopping import StopSignal
from videorl.orchestration.trainer import Trainer
from videorl.rewards.load import load_reward
from videorl.rollout.demonstrations import Demonstrations
from videorl.rollout.engine import Engine
from videorl.rollout.pool import EnginePool
from videorl.rollout.rollouter import Rollouter
from videorl.rollout.settings import EngineSettings
from videorl.train.objective import PolicyObjective, SupervisedObjective


def run(config: Config) -> None:
    """Reinforcement learning until the data or max_steps is used up. Blocking.

    Raises:
        UserError: something in the config or data, before anything is started.
        VideorlError: the run could not finish, in one line.
    """
    asyncio.run(_reinforce(config))


def run_supervised(config: Config) -> None:
    """Supervised training on the demonstrations in `data.train`; raises as `run` does."""
    asyncio.run(_imitate(config))


async def _reinforce(config: Config) -> None:
    tokens = TokenRules.of_model(config.model.path)
    reward = load_reward(config.reward)
    template = template_named(config.data.prompt, config.reward.name)
    prompts = PromptBuilder(config.model.path, template, config.data.max_prompt_tokens)
    dataset, reports = load_dataset(config.data, config.run.seed)
    objective = PolicyObjective(config.algo, config.rollout.temperature)
    async with _session(config, dataset, reports, advantages) as session:
        placement = session.place(bundles(config))
        transport = weight_transport(config)
        job = TrainerJob(config, tokens, objective, transport)
        ranks, engines = await session.started(trainer(placement, job), _engines(placement, config, tokens, transport))
        pool = EnginePool(engines, patience=config.rollout.start_timeout)
        rolls = Rollouter(session.store, prompts, pool, reward, tokens, config.sampling, config.algo.group_size)
        await session.control(rolls, engines, ranks)


async def _imitate(config: Config) -> None:
    tokens = TokenRules.of_model(config.model.path)
    prompts = PromptBuilder(config.model.path, as_given, config.data.max_prompt_tokens)
    tokenizer = AutoTokenizer.from_pretrained(config.model.path, local_files_only=True)
    dataset, reports = load_demonstrations(config.data, config.run.seed)
    async with _session(config, dataset, reports, equal_weights) as session:
        placement = session.place([1.0] * config.cluster.trainer_ranks)
        job = TrainerJob(config, tokens, SupervisedObjective(), transport=None)
        (ranks,) = await session.started(trainer(placement, job))
        rolls = Demonstrations(session.store, prompts, tokenizer, config.rollout.max_response_tokens)
        await session.control(rolls, (), ranks)


@dataclass(slots=True)
class _Session:
    """What every run holds while it lasts."""

    config: Config
    weights: Advantages
    opened: AsyncExitStack
    run_dir: RunDir
    resume: Checkpoint | None
    state: RunState
    stop: StopSignal
    monitor: Monitor
    ledger: Ledger
    store: FrameStore

    def place(self, bundles: Sequence[float]) -> Placement:
        placement = self.opened.enter_context(placed(self.config.cluster, bundles))
        self.stop.listen()  # Ray took the signals
        return placement

    async def started(self, *parts: AbstractAsyncContextManager[Any]) -> list[Any]:
        """Start slow parts at once; they end with the session. The first fault, or a signal, ends every start."""
        try:
            async with asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(self.stop.stopped())
                starts = [tasks.create_task(self.opened.enter_async_context(part)) for part in parts]
                await asyncio.gather(*starts)
                watch.cancel()
        except BaseExceptionGroup as faults:
            raise first_fault(faults) from None
        return [start.result() for start in starts]

    async def control(self, rolls: Rolls, engines: Sequence[Engine], ranks: Trainer) -> None:
        controller = Controller(
            config=self.config,
            run_dir=self.run_dir,
            state=self.state,
            stop=self.stop,
            ledger=self.ledger,
            rolls=rolls,
            engines=engines,
            trainer=ranks,
            advantages=self.weights,
            monitor=self.monitor,
        )
        await controller.run(self.resume)


@asynccontextmanager
async def _session(
    config: Config, dataset: Dataset, reports: Sequence[FileReport], weights: Advantages
) -> AsyncIterator[_Session]:
    """Opened in this order, closed in the opposite one; status.json says how it ended."""
    async with AsyncExitStack() as opened:
        run_dir = opened.enter_context(RunDir(config))
        resume = run_dir.resume_point()
        state = opened.enter_context(RunState(run_dir.status, config.run.max_steps))
        stop = opened.enter_context(StopSignal())
        monitor = opened.enter_context(open_monitor(config, weights))
        for report in reports:
            counts = {"read": report.read, "kept": report.kept, "dropped": dict(report.dropped)}
            monitor.event("file_read", path=str(report.path), **counts)
        ledger = Ledger(run_dir.ledger, dataset, config.data.epochs)
        opened.callback(ledger.close)
        store = FrameStore.from_config(config.data, config.store_dir)
        opened.callback(store.close)
        yield _Session(config, weights, opened, run_dir, resume, state, stop, monitor, ledger, store)


def bundles(config: Config) -> list[float]:
    """Devices of each place: trainer ranks, then replicas (on shared devices the two lie in the same places)."""
    ranks, tp = [1.0] * config.cluster.trainer_ranks, [float(config.rollout.tensor_parallel)] * config.replicas
    return ranks if config.cluster.share_devices else ranks + tp


def weight_transport(config: Config) -> Literal["shm", "nccl"]:
    """Shared memory on one machine or on CPU, else NCCL."""
    chosen = config.cluster.weight_transport
    if chosen != "auto":
        return chosen
    return "nccl" if config.cluster.nodes > 1 and resolve_device(config.cluster.device) == "gpu" else "shm"


def _engines(placement: Placement, config: Config, tokens: TokenRules, transport: Literal["shm", "nccl"]):
    settings = [
        EngineSettings.of_config(config, tokens, i, device=placement.device, weight_transport=transport)
        for i in range(config.replicas)
    ]
    shared = config.cluster.share_devices
    return replicas(
        placement,
        settings,
        config.data,
        config.store_dir,
        first_bundle=0 if shared else config.cluster.trainer_ranks,
        devices_each=0.5 if shared else None,
    )
