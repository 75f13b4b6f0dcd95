"""The config of an evaluation: where its settings come from when a person gives a model and little else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from videorl.config import Config, build_config, load_config
from videorl.eval.run_folder import ModelChoice


def evaluation_config(
    choice: ModelChoice, out: Path, *, config_file: Path | None = None, overrides: Sequence[str] = ()
) -> Config:
    """Settings for evaluating `choice`: a given file's, else those that the weights were trained under, else defaults.

    Overrides come on top. The config's model is the one that is evaluated; its frame store is the run's, or lies
    beside `out`.

    Raises:
        UserError: as `load_config`.
    """
    home = choice.run.path if choice.run else out
    forced = [f"model.path={_quoted(choice.folder)}", f"run.dir={_quoted(home)}"]
    origin = config_file or choice.config_file
    if origin is not None:
        return load_config(origin, [*forced, *overrides])
    # Nothing is trained: the sections of training hold whatever lets the config be valid.
    untrained = {"data": {"train": ["-"]}, "rollout": {"max_response_tokens": 1}, "trainer": {"token_budget": 1 << 20}}
    return build_config(untrained, [*forced, *overrides], "the command line")


def _quoted(path: Path) -> str:
    return json.dumps(str(path.absolute()))
