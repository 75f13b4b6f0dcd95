"""Two evaluations of the same rows, paired: what changed, how surely, and on which rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from videorl.errors import UserError
from videorl.eval.markdown import interval_text, table
from videorl.eval.predictions import Prediction
from videorl.eval.statistics import (
    Interval,
    Pairs,
    macro_difference_interval,
    mcnemar,
    paired_interval,
    pooled,
)


@dataclass(slots=True, frozen=True)
class Flip:
    """A row that one of the two answered rightly and the other did not."""

    benchmark: str
    id: str
    answer: str
    a: str | None  # the letter that A answered
    b: str | None

    @property
    def won(self) -> bool:
        """B is the one that is right."""
        return self.b == self.answer


@dataclass(slots=True, frozen=True)
class Difference:
    """B against A on one benchmark, or on the pooled rows of all."""

    rows: int
    accuracy_a: float
    accuracy_b: float
    difference: float  # B minus A
    interval: Interval
    p_value: float  # McNemar's exact test
    won: int  # wrong in A, right in B
    lost: int


@dataclass(slots=True, frozen=True)
class Comparison:
    benchmarks: Mapping[str, Difference]
    all_rows: Difference
    macro_difference: float
    macro_interval: Interval
    flips: tuple[Flip, ...]
    unpaired: int  # rows that only one of the two evaluations has


def compare_predictions(a: Sequence[Prediction], b: Sequence[Prediction]) -> Comparison:
    """Pair the rows by benchmark and id.

    Raises:
        UserError: the two evaluations share no row.
    """
    of_a = {(p.benchmark, p.id): p for p in a}
    of_b = {(p.benchmark, p.id): p for p in b}
    shared = [key for key in of_a if key in of_b]
    if not shared:
        raise UserError(
            f"no row in common: A has {sorted({n for n, _ in of_a})}, B has {sorted({n for n, _ in of_b})}; "
            "compare two evaluations of the same benchmarks"
        )
    names = list(dict.fromkeys(name for name, _ in shared))
    pairs = {name: _count([(of_a[k], of_b[k]) for k in shared if k[0] == name]) for name in names}
    return Comparison(
        benchmarks={name: _difference(p) for name, p in pairs.items()},
        all_rows=_difference(pooled(list(pairs.values()))),
        macro_difference=sum(p.difference for p in pairs.values()) / len(pairs),
        macro_interval=macro_difference_interval(list(pairs.values())),
        flips=tuple(
            Flip(*key, of_a[key].answer, of_a[key].choice, of_b[key].choice)
            for key in sorted(shared)
            if of_a[key].correct != of_b[key].correct
        ),
        unpaired=len(of_a) + len(of_b) - 2 * len(shared),
    )


def _count(rows: Sequence[tuple[Prediction, Prediction]]) -> Pairs:
    return Pairs(
        both=sum(a.correct and b.correct for a, b in rows),
        only_a=sum(a.correct and not b.correct for a, b in rows),
        only_b=sum(b.correct and not a.correct for a, b in rows),
        neither=sum(not a.correct and not b.correct for a, b in rows),
    )


def _difference(pairs: Pairs) -> Difference:
    return Difference(
        rows=pairs.rows,
        accuracy_a=(pairs.both + pairs.only_a) / pairs.rows,
        accuracy_b=(pairs.both + pairs.only_b) / pairs.rows,
        difference=pairs.difference,
        interval=paired_interval(pairs),
        p_value=mcnemar(pairs),
        won=pairs.only_b,
        lost=pairs.only_a,
    )


def render_comparison(comparison: Comparison, a: str, b: str) -> str:
    """The comparison as Markdown."""
    header = ["", "rows", "A", "B", "B - A", "95 % interval", "won", "lost", "McNemar p"]
    columns = {**comparison.benchmarks, "all rows": comparison.all_rows}
    rows = [_row(name, difference) for name, difference in columns.items()]
    macro = f"Macro mean: {comparison.macro_difference:+.4f} ({interval_text(comparison.macro_interval)})"
    parts = [f"A: {a}\nB: {b}", table(header, rows), macro]
    if comparison.unpaired:
        parts.append(f"{comparison.unpaired} rows stand in only one of the two evaluations and are left out.")
    if comparison.flips:
        flips = [
            [f.id, f.benchmark, f.answer, f.a or "-", f.b or "-", "won" if f.won else "lost"] for f in comparison.flips
        ]
        parts.append(table(["flipped row", "benchmark", "right", "A", "B", ""], flips))
    return "\n\n".join(parts) + "\n"


def _row(name: str, d: Difference) -> list[str]:
    numbers = [f"{d.accuracy_a:.4f}", f"{d.accuracy_b:.4f}", f"{d.difference:+.4f}", interval_text(d.interval)]
    return [name, str(d.rows), *numbers, str(d.won), str(d.lost), f"{d.p_value:.4g}"]
