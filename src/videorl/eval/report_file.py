"""A report on disk: report.json for tools (a contract), report.md for people."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from videorl.errors import UserError, unwritten
from videorl.eval.documents import checked, read_object
from videorl.eval.markdown import render
from videorl.eval.report import Report


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
    tree = read_object(path)
    if not tree:
        raise UserError(f"{path}: no report there; `videorl eval --out {folder}` writes one")
    return checked(Report, _with_intervals(tree), path, "a report of videorl eval")


def _with_intervals(value: Any) -> Any:
    """What `plain` wrote as pairs."""
    if not isinstance(value, dict):
        return value
    return {
        name: dict(zip(("low", "high"), inner, strict=False))
        if name in ("interval", "macro_interval") and isinstance(inner, list)
        else _with_intervals(inner)
        for name, inner in value.items()
    }


def plain(value: Any) -> Any:
    """An interval is a pair in JSON."""
    if isinstance(value, dict):
        if value.keys() == {"low", "high"}:
            return [value["low"], value["high"]]
        return {name: plain(inner) for name, inner in value.items()}
    return value


def replace_file(path: Path, text: str) -> None:
    """Write a file in one piece: a reader sees the old text or the new one.

    Raises:
        VideorlError: it cannot be written (a UserError where the place is at fault, and not the disk).
    """
    draft = path.with_name(path.name + ".tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise unwritten(path, error) from None
