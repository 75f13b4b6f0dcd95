"""What a person reads while a run goes on."""

from __future__ import annotations

import io

from rich.console import Console

from builders_monitor import group, record
from videorl.monitor.console import RunConsole

METRICS = {
    "reward/accuracy": 0.25,
    "reward/format": 0.9,
    "response/length": 92.4,
    "lag/mean": 0.5,
    "lag/max": 1,
    "idle/trainer": 0.1,
    "idle/rollout": 0.02,
    "logprob/max_diff": 3.2e-6,
}


def shown(mode: str, *, terminal: bool = False) -> str:
    out = io.StringIO()
    console = RunConsole(mode, 20, 1, Console(file=out, width=60, force_terminal=terminal))  # type: ignore[arg-type]
    console.step(record(3, **METRICS))
    console.step(record(4, **METRICS))
    console.groups(4, [group(), group()])
    console.event("publication", {"version": 4})
    console.event("engine_died", {"engine": "replica-1", "step": None})
    console.close()
    return out.getvalue()


def test_plain_lines_hold_every_number_under_its_title() -> None:
    title, third, fourth, response, event = shown("plain").splitlines()
    assert " ".join(title.split()) == "step time reward accuracy format length lag max idle train roll mismatch"
    assert " ".join(third.split()) == "3/20 1.2s 0.500 0.250 0.90 92.4 0.5 1 10% 2% 3.2e-06"
    assert fourth.split()[0] == "4/20"
    assert len(title) == len(third) == len(fourth)
    assert response.strip() == "test/0: it is B  [1.00]"
    assert event.strip() == "engine died  engine=replica-1"


def test_auto_is_plain_where_no_terminal_is_and_off_is_silent() -> None:
    assert shown("auto") == shown("plain")
    assert shown("off") == ""


def test_a_terminal_gets_the_same_lines_and_a_bar() -> None:
    text = shown("auto", terminal=True)
    assert "\x1b[" in text
    assert "3/20" in text
    assert "test/0: it is B  [1.00]" in text


def test_a_missing_number_is_a_dash_and_markup_in_a_response_is_text() -> None:
    out = io.StringIO()
    console = RunConsole("plain", None, 0, Console(file=out))
    console.step(record(1))
    console.event("note", {"detail": "[red]not markup[/red] [/]"})
    assert out.getvalue().splitlines()[1].split()[:4] == ["1", "1.2s", "0.500", "-"]
    assert "[red]not markup[/red] [/]" in out.getvalue()
