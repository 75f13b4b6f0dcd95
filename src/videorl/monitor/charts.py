"""A metric over the steps as a small SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 300, 90


@dataclass(slots=True, frozen=True)
class Chart:
    """A line within WIDTH x HEIGHT, and the numbers that stand beside it."""

    title: str
    points: str  # of an SVG polyline
    low: float
    high: float
    last: float


def chart_of(metrics: Sequence[Mapping[str, Any]], name: str) -> Chart | None:
    """The chart of one metric; None where no step has it as a number."""
    values = [(m["step"], m[name]) for m in metrics if _is_number(m.get("step")) and _is_number(m.get(name))]
    if not values:
        return None
    steps, heights = [step for step, _ in values], [value for _, value in values]
    low, high = min(heights), max(heights)
    points = " ".join(
        f"{_scaled(step, steps[0], steps[-1]) * WIDTH:.1f},{(1 - _scaled(value, low, high)) * HEIGHT:.1f}"
        for step, value in values
    )
    return Chart(name, points, low, high, heights[-1])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e100


def _scaled(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5
