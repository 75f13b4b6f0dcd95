"""What a person sees while a run goes on: a progress bar with one line a fit step, plain lines where no terminal is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from videorl.types import Group, StepRecord

Number = float | int | None

# Title, width, metric, format. The order is that in which one asks: is it learning, is it healthy, is it busy.
_COLUMNS: tuple[tuple[str, int, str, Callable[[float], str]], ...] = (
    ("time", 7, "timing/step", "{:.1f}s".format),
    ("reward", 7, "reward/mean", "{:.3f}".format),
    ("accuracy", 8, "reward/accuracy", "{:.3f}".format),
    ("format", 6, "reward/format", "{:.2f}".format),
    ("length", 7, "response/length", "{:.1f}".format),
    ("lag", 4, "lag/mean", "{:.1f}".format),
    ("max", 3, "lag/max", "{:.0f}".format),
    ("idle train", 10, "idle/trainer", "{:.0%}".format),
    ("roll", 5, "idle/rollout", "{:.0%}".format),
    ("mismatch", 8, "logprob/max_diff", "{:.1e}".format),
)
# Events that happen all the time; what they say stands in the step's line. Times are for the file.
_QUIET = frozenset({"group", "update", "publication", "step", "response_dropped"})
_UNTOLD = frozenset({"starts", "ends", "traceback"})
_SHOWN_CHARACTERS = 200


class RunConsole:
    """Shows fit steps, events and a few responses on a console. Nothing is shown twice and nothing is only shown."""

    def __init__(
        self, mode: Literal["auto", "rich", "plain", "off"], max_steps: int | None, samples: int, console: Console
    ) -> None:
        self._console = console
        self._max_steps = max_steps
        self._samples = samples
        self._off = mode == "off"
        self._titled = False
        rich = mode == "rich" or (mode == "auto" and console.is_terminal)
        self._progress = _progress(console) if rich else None
        self._task = self._progress.add_task("starting", total=max_steps) if self._progress else None
        if self._progress:
            self._progress.start()

    def step(self, record: StepRecord) -> None:
        if self._off:
            return
        if not self._titled:
            self._titled = True
            self._line(f"{'step':>9} " + " ".join(f"{title:>{width}}" for title, width, _, _ in _COLUMNS))
        of_all = f"{record.step}/{self._max_steps}" if self._max_steps else str(record.step)
        self._line(f"{of_all:>9} " + " ".join(_cell(record.metrics, *column) for column in _COLUMNS))
        if self._progress and self._task is not None:
            self._progress.update(self._task, completed=record.step, description=f"version {record.version}")

    def groups(self, step: int, groups: Sequence[Group]) -> None:
        """A few responses of a step, the best ones of its first groups."""
        if self._off:
            return
        for group in groups[: self._samples]:
            scored = [r for r in group.responses if r.score]
            if not scored:
                continue
            best = max(scored, key=lambda r: r.score.score if r.score else 0.0)
            text = " ".join(best.rollout.text.split())
            shown = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
            worth = best.score.score if best.score else 0.0
            self._line(f"  {group.issued.question.id}: {shown}  [{worth:.2f}]", style="dim")

    def event(self, kind: str, facts: Mapping[str, object]) -> None:
        if self._off or kind in _QUIET:
            return
        facts = {name: value for name, value in facts.items() if value not in (None, {}) and name not in _UNTOLD}
        told = "  ".join(f"{n}={v:.3g}" if isinstance(v, float) else f"{n}={v}" for n, v in facts.items())
        self._line(f"  {kind.replace('_', ' ')}  {told}".rstrip(), style="yellow" if "fail" in kind else "dim")

    def close(self) -> None:
        if self._progress:
            self._progress.stop()

    def _line(self, text: str, style: str = "") -> None:
        self._console.print(escape(text), style=style, highlight=False, soft_wrap=True)


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("fit step {task.completed:.0f}"),
        BarColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def _cell(metrics: Mapping[str, Number], title: str, width: int, name: str, shown: Callable[[float], str]) -> str:
    value = metrics.get(name)
    return f"{'-' if value is None else shown(value):>{max(width, len(title))}}"
