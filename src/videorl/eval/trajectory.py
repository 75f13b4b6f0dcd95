"""A run's evaluations over its steps: table, plot, keeper."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from videorl.eval.markdown import interval_text, table
from videorl.eval.report import Report
from videorl.eval.report_file import read_report, replace_file
from videorl.eval.run_folder import Keeper, RunFolder
from videorl.eval.statistics import Interval
from videorl.monitor.steps import steps_of

MACRO_MEAN = "the benchmarks' macro mean"


@dataclass(slots=True, frozen=True)
class Point:
    """One evaluated step; 0 is the base."""

    step: int
    macro_mean: float
    macro_interval: Interval
    accuracies: Mapping[str, float]
    complete: bool
    validation: float | None = None  # macro mean on the validation file, where one is given


def read_trajectory(run: RunFolder, *, validated: bool = False) -> list[Point]:
    """Every evaluated step of a run, ascending, from the reports in it."""
    points: list[Point] = []
    for step in steps_of(path.parent for path in run.evaluations.glob("step-*/report.json")):
        report = read_report(run.evaluation(step))
        validation = run.evaluation(step) / "validation"
        known = validated and (validation / "report.json").is_file()
        points.append(_point(step, report, read_report(validation).macro_mean if known else None))
    return points


def choose_keeper(points: Sequence[Point], validation: str | None) -> Keeper | None:
    """The best trained step (the base is no checkpoint), the earliest of equals.

    Args:
        validation: the file whose accuracy decides, or None for the benchmarks' macro mean.
    """
    judged = [(p.validation if validation else p.macro_mean, p) for p in points if p.step > 0]
    ranked = [(value, point) for value, point in judged if value is not None]
    if not ranked:
        return None
    value, best = max(ranked, key=lambda pair: (pair[0], -pair[1].step))
    return Keeper(best.step, best.macro_mean, validation or MACRO_MEAN, value)


def write_trajectory(run: RunFolder, points: Sequence[Point], keeper: Keeper | None) -> None:
    """Write trajectory.json, trajectory.md and trajectory.png into RUN/eval."""
    tree = {"points": [_plain(p) for p in points], "keeper": asdict(keeper) if keeper else None}
    replace_file(run.evaluations / "trajectory.json", json.dumps(tree, indent=2) + "\n")
    replace_file(run.evaluations / "trajectory.md", render_trajectory(points, keeper))
    plot_trajectory(points, keeper, run.evaluations / "trajectory.png")


def render_trajectory(points: Sequence[Point], keeper: Keeper | None) -> str:
    """The trajectory as a Markdown table."""
    names = list(dict.fromkeys(name for p in points for name in p.accuracies))
    header = ["step", "mean", "95 % interval", *names]
    rows = [
        [
            _step_name(p, keeper),
            f"{p.macro_mean:.4f}",
            interval_text(p.macro_interval),
            *(f"{p.accuracies[name]:.4f}" if name in p.accuracies else "" for name in names),
        ]
        for p in points
    ]
    text = table(header, rows)
    if keeper:
        text += f"\n\nKeeper: step {keeper.step}, chosen on {keeper.chosen_on} ({keeper.criterion:.4f})."
    return text + "\n"


def plot_trajectory(points: Sequence[Point], keeper: Keeper | None, path: Path) -> None:
    """The mean with its interval, and each benchmark, over the steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    steps = [p.step for p in points]
    for name in dict.fromkeys(name for p in points for name in p.accuracies):
        axes.plot(steps, [p.accuracies.get(name, float("nan")) for p in points], marker=".", alpha=0.6, label=name)
    axes.plot(steps, [p.macro_mean for p in points], marker="o", color="black", label="mean")
    low, high = [p.macro_interval.low for p in points], [p.macro_interval.high for p in points]
    axes.fill_between(steps, low, high, color="black", alpha=0.1, label="mean, 95 %")
    if keeper:
        axes.axvline(keeper.step, color="black", linestyle=":", label=f"keeper ({keeper.step})")
    axes.set(xlabel="fit step", ylabel="accuracy")
    axes.legend()
    draft = path.with_name("." + path.name)
    figure.savefig(draft, dpi=120)
    draft.replace(path)


def _point(step: int, report: Report, validation: float | None) -> Point:
    return Point(
        step=step,
        macro_mean=report.macro_mean,
        macro_interval=report.macro_interval,
        accuracies={name: b.accuracy for name, b in report.benchmarks.items()},
        complete=report.complete,
        validation=validation,
    )


def _plain(point: Point) -> Mapping[str, object]:
    return asdict(point) | {"macro_interval": [point.macro_interval.low, point.macro_interval.high]}


def _step_name(point: Point, keeper: Keeper | None) -> str:
    name = "base" if point.step == 0 else str(point.step)
    kept = " (keeper)" if keeper and keeper.step == point.step else ""
    return name + kept + ("" if point.complete else " (incomplete)")
