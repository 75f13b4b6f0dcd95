"""videorl sft: supervised training on think-and-answer conversations, through the same trainer."""

from __future__ import annotations

from videorl.cli.train import AsJson, ConfigFile, DryRun, Overrides, launch


def sft(config_file: ConfigFile, overrides: Overrides = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Train on given responses: data.train holds conversations (messages, videos). Loss on the response only."""
    launch(config_file, overrides or [], dry_run, as_json, supervised=True)
