from __future__ import annotations

import multiprocessing
import os
import signal
import time
from importlib.metadata import entry_points
from multiprocessing.connection import Connection

import psutil

from videorl.rollout.vllm_plugin import register


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


def test_the_first_process_is_left_alone() -> None:
    register()  # would end the test run with its parent, were it to take part


def test_vllm_finds_the_plugin() -> None:
    names = {point.name: point.value for point in entry_points(group="vllm.general_plugins")}
    assert names["videorl"] == "videorl.rollout.vllm_plugin:register"
