from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from videorl.errors import RunStopped, VideorlError
from videorl.orchestration.run_state import RunState
from videorl.orchestration.stopping import StopSignal


def told(path: Path) -> tuple[str, int, str | None]:
    status = json.loads(path.read_text())
    assert status["pid"] == os.getpid()
    return status["state"], status["step"], status["last_error"]


def test_it_tells_start_progress_and_end(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    with RunState(path) as state:
        assert told(path) == ("starting", 0, None)
        state.running(step=3, version=3)
        assert told(path) == ("running", 3, None)
    assert told(path) == ("finished", 3, None)
    assert [p.name for p in tmp_path.iterdir()] == ["status.json"]


@pytest.mark.parametrize(
    ("fault", "state", "error"),
    [
        (VideorlError("engine 1: gone"), "failed", "engine 1: gone"),
        (ValueError("shapes differ\nmore"), "failed", "ValueError: shapes differ"),
        (RunStopped("stopped by SIGTERM"), "stopped", "stopped by SIGTERM"),
    ],
)
def test_it_tells_a_fault_in_one_line(tmp_path: Path, fault: Exception, state: str, error: str) -> None:
    path = tmp_path / "status.json"

    def run() -> None:
        with RunState(path) as running:
            running.running(step=2, version=2)
            raise fault

    with pytest.raises(type(fault)):
        run()
    assert told(path) == (state, 2, error)


async def test_a_signal_becomes_run_stopped_and_the_handler_is_given_back() -> None:
    def handler(*_: object) -> None: ...

    before = signal.signal(signal.SIGTERM, handler)
    try:
        with StopSignal() as stop:
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(RunStopped, match="stopped by SIGTERM"):
                async with asyncio.timeout(5):
                    await stop.stopped()
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
