"""The families that there are."""

from __future__ import annotations

from pathlib import Path

from videorl.model.family import ModelFamily
from videorl.model.qwen3_vl import Qwen3VL

FAMILIES = {"qwen3_vl": Qwen3VL}


def open_family(name: str, folder: Path) -> ModelFamily:
    """The family that `model.family` names, for the model in `folder`.

    Raises:
        UserError: the folder holds another kind of model.
    """
    return FAMILIES[name](folder)
