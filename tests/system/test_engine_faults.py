"""Engines that die. They have an engine of their own, on a tied head, whose publication is checked on the way."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from builders_engine import TOLERANCE, start_tiny_engine
from builders_rollout import perturbed
from videorl.errors import EngineDied
from videorl.types import Sampling, WeightHandle

pytestmark = pytest.mark.slow


async def test_a_tied_head_is_published_and_a_killed_core_ends_every_call(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    running = await start_tiny_engine(tmp_path, tie=True)
    processes = set(psutil.Process().children(recursive=True)) - before
    core = next(p for p in processes if "EngineCore" in p.name() + " ".join(p.cmdline()))
    workers = core.children(recursive=True)
    assert workers

    prompt, video = running.ask(seed=1)
    sampling = Sampling(0.7, max_tokens=32)
    await running.publish(perturbed(running.oracle.model, 7))
    for rollout in await running.engine.generate("tied", prompt, 2, sampling):
        assert running.difference(prompt, video, rollout, sampling).max() < TOLERANCE

    long = Sampling(1.0, max_tokens=900)
    calls = [asyncio.ensure_future(running.engine.generate(f"{i}", prompt, 8, long)) for i in range(3)]
    await asyncio.sleep(0.2)
    os.kill(core.pid, signal.SIGSTOP)  # so that a control call waits at the time of death
    calls.append(asyncio.ensure_future(running.engine.load_weights(running.handle)))
    await asyncio.sleep(0.2)
    os.kill(core.pid, signal.SIGKILL)
    began = time.monotonic()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert time.monotonic() - began < 30, "far more than the second that it takes"
    assert [type(result) for result in results] == [EngineDied] * 4
    with pytest.raises(EngineDied):
        await running.engine.generate("late", prompt, 1, sampling)
    with pytest.raises(EngineDied):
        await running.engine.load_weights(WeightHandle(9, "shm", "nowhere"))
    await running.close()
    await running.close()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
