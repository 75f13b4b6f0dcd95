from __future__ import annotations

import multiprocessing
import os
import signal
import time
from importlib.metadata import entry_points
from multiprocessing.connection import Connection

import psutil
import pytest

from videorl.rollout.vllm_plugin import NO_COMPILATION, register


def engine_process() -> None:
    register()
    time.sleep(600)


def front_process(pipe: Connection) -> None:
    register()
    child = multiprocessing.get_context("spawn").Process(target=engine_process)
    child.start()
    pipe.send(child.pid)
    time.sleep(600)


def test_a_child_does_not_outlive_its_killed_parent() -> None:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    front = spawn.Process(target=front_process, args=(theirs,))
    front.start()
    child = psutil.Process(ours.recv())
    wait_until_registered(child)
    os.kill(front.pid or 0, signal.SIGKILL)
    front.join(10)
    gone, alive = psutil.wait_procs([child], timeout=10)
    for process in alive:
        process.kill()
    assert gone


def wait_until_registered(process: psutil.Process) -> None:
    """It sleeps in `time.sleep` then; registering uses next to no time after the imports."""
    for _ in range(600):
        used = sum(process.cpu_times()[:2])
        time.sleep(0.3)
        if used > 0.02 and sum(process.cpu_times()[:2]) == used:
            return


def registered_process(pipe: Connection) -> None:
    import torch._dynamo.config

    os.environ |= {"VLLM_WORKER_MULTIPROC_METHOD": "spawn", NO_COMPILATION: "1"}  # after torch was imported
    register()
    pipe.send((os.environ.get("VLLM_WORKER_MULTIPROC_METHOD"), torch._dynamo.config.disable))


def test_a_core_forks_its_workers_and_compiles_nothing_where_it_is_told() -> None:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    core = spawn.Process(target=registered_process, args=(theirs,))
    core.start()
    assert ours.recv() == (None, True)
    core.join(10)


def test_the_first_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    register()  # would end the test run with its parent, were it to take part
    assert os.environ["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"


def test_vllm_finds_the_plugin() -> None:
    names = {point.name: point.value for point in entry_points(group="vllm.general_plugins")}
    assert names["videorl"] == "videorl.rollout.vllm_plugin:register"
