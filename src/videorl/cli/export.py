"""videorl export: a checkpoint as a model for others."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from videorl.errors import UserError


class Precision(StrEnum):
    bfloat16 = "bfloat16"
    float32 = "float32"


def export(
    run: Annotated[str, typer.Argument(metavar="RUN[@STEP|@keeper]", help="Unset: the newest checkpoint.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty, or an export to replace.")],
    dtype: Annotated[Precision, typer.Option(help="float32 keeps the trainer's weights exactly.")] = Precision.bfloat16,
) -> None:
    """Write a Hugging Face model folder that carries training's frames and prompt form in its processor."""
    from videorl.config import dump_toml
    from videorl.eval.run_folder import find_model
    from videorl.export.model import export_model

    choice = find_model(run)
    if choice.run is None or choice.step is None:
        raise UserError(f"{run}: not a run; give RUN, RUN@STEP or RUN@keeper")
    config = choice.run.config()
    base = config.model.path if config.model.path.is_dir() else None
    done = export_model(
        choice.folder,
        base,
        folder,
        frames=config.data.frame_sampling,
        dtype=dtype.value,
        run=os.path.relpath(os.path.realpath(choice.run.path), os.path.realpath(folder)),
        step=choice.step,
        config_toml=dump_toml(config),
    )
    if base is None:
        typer.echo(f"{config.model.path}: gone; keys, config and tokenizer are the checkpoint's alone", err=True)
    typer.echo(f"{folder}: step {done.step}, {done.parameters:,} parameters in {done.dtype}, {done.shards} file(s)")
    for difference in done.differences:
        typer.echo(f"differs from training: {difference}", err=True)
