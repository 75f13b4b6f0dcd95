"""videorl playground: the small synthetic video world and its base model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="A small synthetic video world for trying everything out.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="Where it lies; made if absent.")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same bytes.")]


@app.command()
def make(folder: Folder, seed: Seed = 0) -> None:
    """Write clips, question files and a base model. What is there already, made by the same recipe, is kept."""
    from videorl.playground.world import make_playground

    typer.echo(str(make_playground(folder, seed)))


@app.command()
def base(folder: Folder, seed: Seed = 0) -> None:
    """Make the base model anew by four supervised runs: about twenty minutes on two cores."""
    from videorl.playground.base_model import make_base

    typer.echo(str(make_base(folder, seed)))
