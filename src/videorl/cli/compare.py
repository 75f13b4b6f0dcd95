"""videorl compare: two evaluations of the same rows, paired."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def compare(
    a: Annotated[Path, typer.Argument(help="Output folder of an evaluation.")],
    b: Annotated[Path, typer.Argument(help="Output folder of another one, with the same benchmarks.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare B with A: paired difference with a 95 % interval, McNemar's exact test, and the rows that flipped."""
    from videorl.eval.comparison import compare_predictions, render_comparison
    from videorl.eval.predictions import read_predictions
    from videorl.eval.report_file import plain, read_report

    reports = [read_report(folder) for folder in (a, b)]
    comparison = compare_predictions(*(read_predictions(folder / "predictions.jsonl") for folder in (a, b)))
    differing = {
        name: [report.settings.get(name) for report in reports]
        for name in reports[0].settings
        if reports[0].settings.get(name) != reports[1].settings.get(name)
    }
    if as_json:
        tree = plain(asdict(comparison)) | {"a": str(a), "b": str(b), "different_settings": differing}
        typer.echo(json.dumps(tree, ensure_ascii=False, indent=2))
        return
    typer.echo(render_comparison(comparison, str(a), str(b)).rstrip())
    for name, (of_a, of_b) in differing.items():
        typer.echo(f"Setting {name} differs: {of_a!r} in A, {of_b!r} in B.")
