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
    """Write only the tiny Qwen3-VL, as an ordinary Hugging Face model folder."""
    from videorl.playground.tiny_model import make_tiny_model

    make_tiny_model(folder, seed)
    typer.echo(str(folder))
