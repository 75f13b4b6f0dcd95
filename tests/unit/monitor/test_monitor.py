"""The files of a run: whole lines, every response, faults in one line."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from builders_monitor import group, record
from videorl.algo.advantage import advantages
from videorl.config.schema import Config
from videorl.errors import UserError, VideorlError
from videorl.monitor.console import RunConsole
from videorl.monitor.jsonl import JsonlFile
from videorl.monitor.monitor import Monitor, open_monitor
from videorl.types import StepRecord


def silent() -> RunConsole:
    return RunConsole("off", None, 0, Console(file=io.StringIO()))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    with Monitor(tmp_path, advantages, silent(), []) as opened:
        yield opened


def test_a_step_is_one_line_of_metrics(monitor: Monitor, tmp_path: Path) -> None:
    monitor.step(record(1))
    monitor.step(record(2, loss=float("nan"), **{"lag/max": 1}))
    first, second = lines(tmp_path / "metrics.jsonl")
    assert (first["step"], first["version"], first["reward/mean"], first["grad_norm"]) == (1, 1, 0.5, None)
    assert (second["loss"], second["lag/max"]) == (None, 1)


def test_an_event_says_when_what_and_in_which_step(monitor: Monitor, tmp_path: Path) -> None:
    monitor.event("checkpoint", 4, path=Path("x"), seconds=np.float32(0.5))
    (event,) = lines(tmp_path / "events.jsonl")
    assert event.pop("time") > 0
    assert event == {"kind": "checkpoint", "step": 4, "path": "x", "seconds": 0.5}


def test_every_response_is_recorded_with_what_it_was_worth_or_why_it_was_dropped(
    monitor: Monitor, tmp_path: Path
) -> None:
    monitor.groups(3, 2, [group()])
    monitor.groups(3, 2, [group()])
    monitor.groups(4, 3, [group()])
    right, wrong, dropped, empty = lines(tmp_path / "rollouts" / "step-000003.jsonl")[:4]
    assert len(lines(tmp_path / "rollouts" / "step-000003.jsonl")) == 8
    assert len(lines(tmp_path / "rollouts" / "step-000004.jsonl")) == 4
    assert (right["question"], right["epoch"], right["answer"]) == ("test/0", 2, "B")
    assert (right["prompt"], right["response"], right["tokens"]) == ("<video>What passes?", "it is\nB", 3)
    assert (right["choice"], right["score"], right["accuracy"], right["format"]) == ("B", 1.0, 1.0, 1.0)
    assert (right["versions"], empty["versions"]) == ([0, 1], None)
    assert (dropped["drop"], dropped["drop_detail"]) == ("forbidden_token", "token 7")
    assert (dropped["score"], dropped["advantage"], right["drop"]) == (None, None, None)
    scores = [1.0, 0.2, 0.0]  # the dropped one enters neither mean nor deviation
    expected = (np.array(scores) - np.mean(scores)) / (np.std(scores, ddof=1) + 1e-6)
    assert [r["advantage"] for r in (right, wrong, empty)] == pytest.approx(expected.tolist())


def test_text_that_is_no_unicode_is_still_one_line_of_json(tmp_path: Path) -> None:
    file = JsonlFile(tmp_path / "x.jsonl")
    file.append({"text": "a\nb\u2028\x85\u2029\ud800 红"})
    (line,) = (tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["text"] == "a\nb\u2028\x85\u2029\ud800 红"


def test_a_full_disk_is_one_line_and_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "small.jsonl"
    file = JsonlFile(path)
    file.append({"n": 1})
    whole = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 20, hard))
    try:
        with pytest.raises(VideorlError, match="cannot be written") as error:
            file.append({"text": "x" * 100})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert str(path) in str(error.value)
    assert path.read_bytes() == whole


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_no_space_left_is_said_in_words() -> None:
    with pytest.raises(VideorlError, match="/dev/full: cannot be written: No space left on device"):
        JsonlFile(Path("/dev/full")).append({"n": 1})


def test_a_killed_writer_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "killed.jsonl"
    writer = (
        "import sys, itertools\nfrom pathlib import Path\nfrom videorl.monitor.jsonl import JsonlFile\n"
        "file = JsonlFile(Path(sys.argv[1]))\n"
        "for n in itertools.count(): file.append({'n': n, 'text': 'x' * 5000})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", writer, str(path)])
    while not (path.exists() and path.stat().st_size > 500_000):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    text = path.read_text()
    assert text.endswith("\n")
    assert [json.loads(line)["n"] for line in text.splitlines()] == list(range(text.count("\n")))


class _Unreachable:
    """A tracker that fails from its `fails_at`-th call on."""

    name = "unreachable"

    def __init__(self, fails_at: int) -> None:
        self._fails_at = fails_at
        self.calls = 0

    def step(self, record: StepRecord) -> None:
        self.calls += 1
        if self.calls >= self._fails_at:
            raise ConnectionError("no route to host")

    def close(self) -> None:
        self.step(record(0))


def test_a_tracker_that_fails_is_named_and_left_out_and_the_run_goes_on(tmp_path: Path) -> None:
    at_once, at_the_end = _Unreachable(1), _Unreachable(3)
    with Monitor(tmp_path, advantages, silent(), [at_once, at_the_end]) as monitor:
        monitor.step(record(1))
        monitor.step(record(2))
    assert (at_once.calls, at_the_end.calls) == (1, 3)
    assert len(lines(tmp_path / "metrics.jsonl")) == 2
    events = lines(tmp_path / "events.jsonl")
    assert [(e["kind"], e["step"]) for e in events] == [("tracker_failed", 1), ("tracker_failed", None)]
    assert {(e["tracker"], e["error"]) for e in events} == {("unreachable", "no route to host")}


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboard"])
def test_a_tracker_whose_package_is_missing_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    config = Config.model_validate(
        {
            "run": {"dir": str(tmp_path)},
            "model": {"path": "m"},
            "data": {"train": ["d"]},
            "trainer": {"token_budget": 40_000},
            "monitor": {"trackers": [name]},
        }
    )
    with pytest.raises(UserError, match=f"monitor.trackers: {name} cannot be imported"):
        open_monitor(config, advantages)
