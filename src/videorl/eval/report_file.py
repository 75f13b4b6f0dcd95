"""A report on disk: report.json for tools (a contract), report.md for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from videorl.errors import UserError
from videorl.eval.markdown import render
from videorl.eval.report import BenchmarkReport, Report, Share
from videorl.eval.statistics import Interval


def write_report(report: Report, folder: Path) -> None:
    """Write report.json and report.md, each in one piece."""
    replace_file(folder / "report.json", json.dumps(report_json(report), ensure_ascii=False, indent=2) + "\n")
    replace_file(folder / "report.md", render(report))


def report_json(report: Report) -> dict[str, Any]:
    """The report as one JSON document."""
    return plain(asdict(report))


def read_report(folder: Path) -> Report:
    """Read what `write_report` wrote.

    Raises:
        UserError: there is no report, or it is not one of ours.
    """
    path = folder / "report.json"
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        return Report(
            model=tree["model"],
            key=tree["key"],
            weights=tree["weights"],
            settings=tree["settings"],
            benchmarks={name: _column(column) for name, column in tree["benchmarks"].items()},
            macro_mean=tree["macro_mean"],
            macro_interval=Interval(*tree["macro_interval"]),
            complete=tree["complete"],
            probes={p: {name: _column(c) for name, c in columns.items()} for p, columns in tree["probes"].items()},
        )
    except FileNotFoundError:
        raise UserError(f"{path}: no report there; `videorl eval --out {folder}` writes one") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a report of videorl eval ({type(error).__name__}: {error})") from None


def _column(tree: Mapping[str, Any]) -> BenchmarkReport:
    by = {name: {value: Share(**share) for value, share in values.items()} for name, values in tree["by"].items()}
    lists = {"examples": tuple(tree["examples"]), "filters": tuple(tree["filters"])}
    return BenchmarkReport(**{**tree, **lists, "by": by, "interval": Interval(*tree["interval"])})


def plain(value: Any) -> Any:
    """An interval is a pair in JSON."""
    if isinstance(value, dict):
        if value.keys() == {"low", "high"}:
            return [value["low"], value["high"]]
        return {name: plain(inner) for name, inner in value.items()}
    return value


def replace_file(path: Path, text: str) -> None:
    """Write a file in one piece: a reader sees the old text or the new one."""
    draft = path.with_name(path.name + ".tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
