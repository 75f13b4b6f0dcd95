"""videorl card: README.md of a run or of an exported model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def card(
    name: Annotated[
        str, typer.Argument(metavar="RUN|DIR", help="A run (its keeper), RUN@STEP, or an exported folder.")
    ],
    base_model: Annotated[str | None, typer.Option(help="The base's name on a hub; unset: its folder's name.")] = None,
    license: Annotated[str | None, typer.Option(help="The base's licence; unset: what its own card says.")] = None,
    out: Annotated[Path | None, typer.Option(help="Unset: README.md in the run or the folder.")] = None,
) -> None:
    """Write a model card. Every number comes from the run's files; what they do not hold is left out."""
    from videorl.eval.report_file import replace_file
    from videorl.export.card import collect_facts, render_card

    facts, folder = collect_facts(name, base_model, license)
    path = out or folder / "README.md"
    replace_file(path, render_card(facts))
    typer.echo(str(path))
