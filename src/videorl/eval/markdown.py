"""A report as people read it: report.md, and what the terminal shows."""

from __future__ import annotations

import json
from collections.abc import Sequence

from videorl.eval.report import BenchmarkReport, Report, macro_mean
from videorl.eval.statistics import Interval


def render(report: Report) -> str:
    """The report as Markdown: the row of accuracies first, then what stands behind it."""
    parts = [f"# Evaluation of {report.model}", _headline(report)]
    if not report.complete:
        parts.append(_incomplete(report))
    parts.append(_columns_table(report))
    if report.probes:
        parts.append(_probes_table(report))
    for name, column in report.benchmarks.items():
        parts += [_breakdown(name, column)] if column.by else []
    parts.append(_settings_table(report))
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; every column but the first is aligned to the right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    lines = [[cell.replace("|", "\\|") for cell in row] for row in (header, rule, *rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def interval_text(interval: Interval) -> str:
    return f"{interval.low:.4f} to {interval.high:.4f}"


def _headline(report: Report) -> str:
    header = ["", "mean", *report.benchmarks]
    values = ["accuracy", f"{report.macro_mean:.4f}", *(f"{b.accuracy:.4f}" for b in report.benchmarks.values())]
    bounds = ["95 % interval", interval_text(report.macro_interval)]
    bounds += [interval_text(b.interval) for b in report.benchmarks.values()]
    return table(header, [values, bounds])


def _incomplete(report: Report) -> str:
    lines = ["**This evaluation is incomplete.** Failed rows are counted as wrong; running it again tries them again."]
    for name, column in report.benchmarks.items():
        if column.failed:
            reasons = ", ".join(f"{reason} {count}" for reason, count in column.failures.items())
            lines.append(f"- {name}: {column.failed} of {column.rows} rows failed ({reasons}), for example")
            lines += [f"  - {example}" for example in column.examples[:3]]
    for probe, columns in report.probes.items():
        failed = sum(column.failed for column in columns.values())
        lines += [f"- {probe}: {failed} rows failed"] if failed else []
    return "\n".join(lines)


def _columns_table(report: Report) -> str:
    header = ["", "rows", "correct", "no answer", "failed", "format rate", "mean tokens"]
    rows = [
        [
            name,
            str(b.rows),
            str(b.correct),
            str(b.no_answer),
            str(b.failed),
            f"{b.format_rate:.3f}",
            f"{b.mean_length:.1f}",
        ]
        for name, b in report.benchmarks.items()
    ]
    filters = [f"{name}: {text}" for name, b in report.benchmarks.items() for text in b.filters]
    return "\n\n".join([table(header, rows), *filters])


def _probes_table(report: Report) -> str:
    header = ["is it looking?", "mean", *report.benchmarks]
    rows = [["plain", f"{report.macro_mean:.4f}", *(f"{b.accuracy:.4f}" for b in report.benchmarks.values())]]
    for probe, columns in report.probes.items():
        rows.append([probe, f"{macro_mean(columns):.4f}", *(f"{columns[n].accuracy:.4f}" for n in report.benchmarks)])
    return table(header, rows)


def _breakdown(name: str, column: BenchmarkReport) -> str:
    rows = [
        [f"{category}: {value}", str(share.rows), f"{share.correct / share.rows:.4f}"]
        for category, values in column.by.items()
        for value, share in values.items()
    ]
    return f"## {name}\n\n{table(['', 'rows', 'accuracy'], rows)}"


def _settings_table(report: Report) -> str:
    rows = [[name, json.dumps(value, ensure_ascii=False)] for name, value in report.settings.items()]
    rows += [["weights", report.weights[:16]], ["key", report.key]]
    return f"## Settings\n\n{table(['', ''], rows)}"
