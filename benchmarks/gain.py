"""What training gained over several seeds: finished demos, pooled, with intervals.

The FINAL checkpoint of each beside its base, greedily, on the held-out rows of its own clips; rows are paired.

    for seed in 0 1 2; do videorl demo --seed $seed --out demo$seed; done
    python benchmarks/gain.py demo0 demo1 demo2
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from videorl.eval.markdown import table
from videorl.eval.predictions import Prediction, read_predictions
from videorl.eval.run_folder import RunFolder
from videorl.eval.statistics import Interval, Pairs, macro_difference_interval, macro_interval, mcnemar, wilson
from videorl.playground.questions import FAMILIES, MULTI_FRAME

Pair = tuple[Prediction, Prediction]  # the base's answer to a row, and the trained model's


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("demos", type=Path, nargs="+")
    demos: list[Path] = parser.parse_args().demos
    rows = [_row(part) for part in parts(demos)]
    header = ["", "rows", "chance", "base", "trained", "gain (95 % interval)", "by seed", "McNemar p"]
    print(table(header, rows))
    first, last = zip(*(rewards(demo) for demo in demos), strict=True)
    print(f"\nmean reward, first and last fit step: {np.mean(first):.3f}, {np.mean(last):.3f}")


@dataclass(slots=True, frozen=True)
class Part:
    """Rows that one line of the table is about, by seed."""

    name: str
    seeds: Sequence[Sequence[Pair]]
    macro: bool = False  # mean over benchmarks instead of over rows


def parts(demos: Sequence[Path]) -> list[Part]:
    seeds, blind = [pairs(demo) for demo in demos], [pairs(demo, "blind") for demo in demos]
    benchmarks = sorted({base.benchmark for base, _ in seeds[0]})
    return [
        Part("**mean**", seeds, macro=True),
        *(Part(name, chosen(seeds, lambda p, name=name: p.benchmark == name)) for name in benchmarks),
        *(
            Part(
                f"{family} (several frames)" if family in MULTI_FRAME else family,
                chosen(seeds, lambda p, family=family: family in p.categories.values()),
            )
            for family in FAMILIES
        ),
        Part("mean, no video", blind, macro=True),
    ]


def pairs(demo: Path, probe: str = "") -> list[Pair]:
    """The rows of a demo, answered by its base and by its last checkpoint."""
    run = RunFolder(demo / "run")
    before, after = (
        {(p.benchmark, p.id): p for p in read_predictions(run.evaluation(step) / probe / "predictions.jsonl")}
        for step in (0, run.steps()[-1])
    )
    return [(before[key], after[key]) for key in before]


def chosen(seeds: Sequence[Sequence[Pair]], wanted: Callable[[Prediction], bool]) -> list[list[Pair]]:
    return [[pair for pair in seed if wanted(pair[0])] for seed in seeds]


def rewards(demo: Path) -> tuple[float, float]:
    lines = (demo / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return json.loads(lines[0])["reward/mean"], json.loads(lines[-1])["reward/mean"]


def _row(part: Part) -> list[str]:
    rows = [pair for seed in part.seeds for pair in seed]
    groups = _by_benchmark(rows) if part.macro else [rows]
    counts = [_count(group) for group in groups]
    before = [(c.both + c.only_a, c.rows) for c in counts]
    after = [(c.both + c.only_b, c.rows) for c in counts]
    gain = float(np.mean([c.difference for c in counts]))
    by_seed = [
        np.mean([_count(group).difference for group in (_by_benchmark(seed) if part.macro else [seed])])
        for seed in part.seeds
    ]
    chance = np.mean([np.mean([1 / len(base.options) for base, _ in group]) for group in groups])
    return [
        part.name,
        str(len(rows)),
        f"{chance:.3f}",
        _accuracy(before),
        _accuracy(after),
        f"{gain:+.3f} ({_text(macro_difference_interval(counts), '+.3f')})",
        ", ".join(f"{value:+.3f}" for value in by_seed),
        f"{mcnemar(_count(rows)):.2g}",
    ]


def _by_benchmark(rows: Sequence[Pair]) -> list[list[Pair]]:
    names = sorted({base.benchmark for base, _ in rows})
    return [[pair for pair in rows if pair[0].benchmark == name] for name in names]


def _count(rows: Sequence[Pair]) -> Pairs:
    found = [(base.correct, trained.correct) for base, trained in rows]
    return Pairs(*(found.count(outcome) for outcome in ((True, True), (True, False), (False, True), (False, False))))


def _accuracy(counts: Sequence[tuple[int, int]]) -> str:
    interval = wilson(*counts[0]) if len(counts) == 1 else macro_interval(counts)
    return f"{np.mean([correct / rows for correct, rows in counts]):.3f} ({_text(interval, '.3f')})"


def _text(interval: Interval, form: str) -> str:
    return f"{interval.low:{form}} to {interval.high:{form}}"


if __name__ == "__main__":
    main()
