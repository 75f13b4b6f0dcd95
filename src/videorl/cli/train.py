"""videorl train: one run, from a config to a trained model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from videorl.config import Config

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The run's config.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY.SUB=VALUE]...", help="Settings that replace the file's.")
]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved config and stop.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def train(
    config_file: ConfigFile,
    overrides: Overrides = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Train a model. A run directory that holds a checkpoint is gone on with."""
    launch(config_file, overrides or [], dry_run, as_json, supervised=False)


def launch(config_file: Path, overrides: list[str], dry_run: bool, as_json: bool, *, supervised: bool) -> None:
    """Show a run's config, or check it and run it."""
    from videorl.config import load_config

    config = load_config(config_file, overrides)
    if dry_run:
        typer.echo(_resolved(config, as_json))
        return
    from videorl.cli.preflight import check

    check(config)
    from videorl.cluster.run import run, run_supervised

    (run_supervised if supervised else run)(config)
    if as_json:
        typer.echo((config.run.dir / "status.json").read_text(encoding="utf-8").rstrip())


def _resolved(config: Config, as_json: bool) -> str:
    if as_json:
        return json.dumps(document(config), indent=2)
    from videorl.config import dump_toml

    derived = "\n".join(f"# {name} = {value}" for name, value in config.derived.items())
    return f"{dump_toml(config).rstrip()}\n\n# What follows from it:\n{derived}"


def document(config: Config) -> dict[str, Any]:
    """The config and its derived numbers as plain JSON."""
    return {"config": config.model_dump(mode="json"), "derived": config.derived}
