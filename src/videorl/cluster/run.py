"""One training run, wired: every component is made here and handed to the others.

run_dir ─ monitor ─ ledger ─ dataset            this process
rollouter ─ controller ─ frame store
trainer ranks ─ rollout replicas                actors on the cluster's devices
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Literal

from videorl.algo.advantage import advantages
from videorl.cluster.engines import replicas
from videorl.cluster.placement import Placement, placed, resolve_device
from videorl.cluster.trainer import TrainerJob, trainer
from videorl.config.schema import Config
from videorl.data.dataset import load_dataset
from videorl.data.prompt import PromptBuilder
from videorl.data.store import FrameStore
from videorl.data.templates import template_named
from videorl.data.tokens import TokenRules
from videorl.monitor.monitor import open_monitor
from videorl.orchestration.controller import Controller
from videorl.orchestration.ledger import Ledger
from videorl.orchestration.run_dir import RunDir
from videorl.orchestration.run_state import RunState
from videorl.orchestration.stopping import StopSignal
from videorl.rewards.load import load_reward
from videorl.rollout.pool import EnginePool
from videorl.rollout.rollouter import Rollouter
from videorl.rollout.settings import EngineSettings
from videorl.train.objective import PolicyObjective


def run(config: Config) -> None:
    """Train until the data or max_steps is used up. Blocking.

    Raises:
        UserError: something in the config or data, before anything is started.
        VideorlError: the run could not finish, in one line.
    """
    asyncio.run(_run(config))


async def _run(config: Config) -> None:
    tokens = TokenRules.of_model(config.model.path)
    reward = load_reward(config.reward)
    template = template_named(config.data.prompt, config.reward.name)
    prompts = PromptBuilder(config.model.path, template, config.data.max_prompt_tokens)
    dataset, reports = load_dataset(config.data, config.run.seed)
    async with AsyncExitStack() as opened:
        run_dir = opened.enter_context(RunDir(config))
        resume = run_dir.resume_point()
        state = opened.enter_context(RunState(run_dir.status, config.run.max_steps))
        stop = opened.enter_context(StopSignal())
        monitor = opened.enter_context(open_monitor(config, advantages))
        for report in reports:
            counts = {"read": report.read, "kept": report.kept, "dropped": dict(report.dropped)}
            monitor.event("file_read", path=str(report.path), **counts)
        ledger = Ledger(run_dir.ledger, dataset, config.data.epochs)
        opened.callback(ledger.close)
        store = FrameStore.from_config(config.data, config.store_dir)
        opened.callback(store.close)
        placement = opened.enter_context(placed(config.cluster, bundles(config)))
        transport = weight_transport(config)
        objective = PolicyObjective(config.algo, config.rollout.temperature)
        ranks = await opened.enter_async_context(trainer(placement, TrainerJob(config, tokens, objective, transport)))
        engines = await opened.enter_async_context(_engines(placement, config, tokens, transport))
        pool = EnginePool(engines, patience=config.rollout.start_timeout)
        rolls = Rollouter(store, prompts, pool, reward, tokens, config.sampling, config.algo.group_size)
        controller = Controller(
            config=config,
            run_dir=run_dir,
            state=state,
            stop=stop,
            ledger=ledger,
            rolls=rolls,
            engines=engines,
            trainer=ranks,
            monitor=monitor,
        )
        await controller.run(resume)


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
