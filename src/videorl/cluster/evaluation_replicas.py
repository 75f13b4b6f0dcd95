"""The replicas of an evaluation, which hold one model at a time.

    hold(step 20) ── start, a minute of imports
    hold(step 40) ── the same but for its weights, on this machine: a publication, as in training
    hold(another) ── other config, tokenizer or machine: closed and started again

Invariant: what `hold` returns computes with the weights of the folder that it was given; the version says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import torch
from safetensors import safe_open

from videorl.cluster.engines import replicas
from videorl.cluster.placement import placed
from videorl.config import Config
from videorl.errors import EngineDied, VideorlError
from videorl.eval.settings import replica_settings
from videorl.rollout.engine import Engine
from videorl.rollout.weights import SharedMemorySender, shared_memory_root

_WEIGHTS = (".safetensors", ".safetensors.index.json", ".md")  # files that may differ: a card says nothing to an engine


class EvaluationReplicas:
    """`eval.replicas` engines, started when the first model comes. Lives on one event loop; end it with `close`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._opened = AsyncExitStack()
        self._engines: Sequence[Engine] = ()
        self._sender: SharedMemorySender | None = None
        self._held = Path()
        self._version = 0

    async def hold(self, model: Path) -> Sequence[Engine]:
        """The engines, with the weights of `model`.

        Raises:
            UserError: the folder is no model, or its positions do not suffice.
            VideorlError: the replicas could not start, or did not take the weights.
        """
        if self._sender and same_but_weights(self._held, model):
            try:
                await self._publish(self._sender, model)
            except EngineDied:
                await self._start(model)
        else:
            await self._start(model)
        self._held = model
        return self._engines

    async def close(self) -> None:
        self._engines, self._sender = (), None
        await self._opened.aclose()

    async def _start(self, model: Path) -> None:
        await self.close()
        config, self._version = self._config, 0
        settings = replica_settings(config, model)
        placement = self._opened.enter_context(placed(config.cluster, [float(one.tensor_parallel) for one in settings]))
        started = replicas(placement, settings, config.data, config.store_dir)
        self._engines = await self._opened.enter_async_context(started)
        if placement.loopback:
            dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[settings[0].dtype]
            self._sender = SharedMemorySender(shared_memory_root() / f"videorl-evaluation-{os.getpid()}", dtype)
            self._opened.callback(self._sender.close)

    async def _publish(self, sender: SharedMemorySender, model: Path) -> None:
        self._version += 1
        handle = await asyncio.to_thread(sender.stage, self._version, _tensors(model))
        await asyncio.gather(*(engine.load_weights(handle) for engine in self._engines))
        sender.release(handle)
        versions = await asyncio.gather(*(engine.version() for engine in self._engines))
        if set(versions) != {self._version}:
            raise VideorlError(f"{model}: the replicas hold weights {sorted(set(versions))}, not {self._version}")


def same_but_weights(one: Path, other: Path) -> bool:
    """Whether two model folders differ in nothing but their weights (and cards)."""
    return _files(one) == _files(other)


def _files(model: Path) -> dict[str, bytes]:
    return {f.name: f.read_bytes() for f in model.iterdir() if f.is_file() and not f.name.endswith(_WEIGHTS)}


def _tensors(model: Path) -> Iterator[tuple[str, torch.Tensor]]:
    for file in sorted(model.glob("*.safetensors")):
        with safe_open(file, framework="pt") as stored:
            for name in stored.keys():  # noqa: SIM118  # safe_open is no mapping
                yield name, stored.get_tensor(name)
