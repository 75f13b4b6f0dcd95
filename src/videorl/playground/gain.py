"""What training gained: one evaluation beside another, by benchmark and by family of questions."""

from __future__ import annotations

from collections import Counter

from videorl.eval.markdown import table
from videorl.eval.report import Report, macro_mean
from videorl.playground.questions import FAMILIES, MULTI_FRAME

# Where each benchmark's native format keeps a question's family.
_FAMILY_FIELDS = ("sub_category", "category", "question_type")


def gain_table(before: Report, after: Report) -> str:
    """Markdown: macro mean, each benchmark, each family, and the mean without videos (chance)."""
    rows = [("**mean**", before.macro_mean, after.macro_mean)]
    rows += [(name, b.accuracy, after.benchmarks[name].accuracy) for name, b in before.benchmarks.items()]
    was, now = by_family(before), by_family(after)
    rows += [(_family_name(family), was[family], now[family]) for family in FAMILIES if family in was]
    rows += [
        (f"mean, {probe}", macro_mean(columns), macro_mean(after.probes[probe]))
        for probe, columns in before.probes.items()
    ]
    cells = [[name, f"{a:.3f}", f"{b:.3f}", f"{b - a:+.3f}"] for name, a, b in rows]
    return table(["", "base", "trained", "gain"], cells)


def by_family(report: Report) -> dict[str, float]:
    """Accuracy by family over all benchmarks."""
    rows: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for benchmark in report.benchmarks.values():
        for field in _FAMILY_FIELDS:
            for family, share in benchmark.by.get(field, {}).items():
                rows[family] += share.rows
                correct[family] += share.correct
    return {family: correct[family] / rows[family] for family in rows}


def _family_name(family: str) -> str:
    return f"{family} (several frames)" if family in MULTI_FRAME else family
