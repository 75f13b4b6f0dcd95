"""How the base is made that the playground's reinforcement learning starts from.

    words    careful traces without a video: the form, and how a conclusion leads to its letter
    sight    careful traces of clips: what each second shows
    focus    the same at a lower rate
    habits   a hasty teacher's traces: a model that sees well and is systematically wrong in places

Each stage is one supervised run from conversations on disk, as `videorl sft` does it, and begins with the weights of
the one before. The base that is kept in `playground/base` came out of this recipe; base_recipe.json has its evaluation.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from videorl.config import Config, build_config
from videorl.data.templates import LETTER_INSTRUCTION
from videorl.playground.formats import Record, write_conversations
from videorl.playground.preset import FRAMES, MAX_RESPONSE_TOKENS
from videorl.playground.questions import FAMILIES, Item
from videorl.playground.records import any_options, draw_records
from videorl.playground.tiny_model import make_tiny_model
from videorl.playground.traces import careful_response, hasty_response

SEED = 0
ROWS = 8_000  # conversations of a stage; all stages ask about the same clips


@dataclass(slots=True, frozen=True)
class Stage:
    """One supervised run."""

    name: str
    teacher: Callable[[Item, np.random.Generator], str]
    videos: bool
    updates: int
    prompts_per_update: int
    lr: float


def _careful(item: Item, rng: np.random.Generator) -> str:
    return careful_response(item)


STAGES = (
    Stage("words", _careful, videos=False, updates=500, prompts_per_update=48, lr=1e-3),
    Stage("sight", _careful, videos=True, updates=450, prompts_per_update=32, lr=1e-3),
    Stage("focus", _careful, videos=True, updates=120, prompts_per_update=32, lr=3e-4),
    Stage("habits", hasty_response, videos=True, updates=220, prompts_per_update=32, lr=3e-4),
)


def make_base(folder: Path, seed: int = SEED) -> Path:
    """Make the base anew under `folder`: its clips, conversations, four runs, and the model in `folder/base`.

    A stage that is done is not done again.
    """
    from videorl.cluster.run import run_supervised

    model = folder / "start"
    make_tiny_model(model, seed)
    records = draw_records(folder, "base", [list(FAMILIES)[i % len(FAMILIES)] for i in range(ROWS)], seed, any_options)
    for stage in STAGES:
        config = stage_config(folder, stage, model, seed)
        model = config.run.dir / "checkpoints" / f"step-{stage.updates:06d}" / "hf"
        write_stage(config.data.train[0], stage, records, seed)
        run_supervised(config)  # a finished run returns at once
    shutil.copytree(model, folder / "base", dirs_exist_ok=True)
    return folder / "base"


def write_stage(path: Path, stage: Stage, records: Sequence[Record], seed: int) -> None:
    """The stage's conversations about `records`."""
    rng = np.random.default_rng([seed, *stage.name.encode()])
    prompts = [f"{record.stated}\n{LETTER_INSTRUCTION}" for record in records]
    responses = [stage.teacher(record.item, rng) for record in records]
    write_conversations(path, records, prompts, responses, videos=stage.videos)


def stage_config(folder: Path, stage: Stage, model: Path, seed: int) -> Config:
    """The stage's run, as `videorl sft` would read it from a file."""
    folder = folder.resolve()
    return build_config(
        {
            "run": {"dir": str(folder / "runs" / stage.name), "seed": seed, "max_steps": stage.updates},
            "model": {"path": str(model.resolve())},
            "data": {
                "train": [str(folder / f"{stage.name}.jsonl")],
                "media_root": str(folder),
                "epochs": -(-stage.updates * stage.prompts_per_update // ROWS),
                **FRAMES,
            },
            "rollout": {"max_response_tokens": MAX_RESPONSE_TOKENS},
            "trainer": {
                "prompts_per_update": stage.prompts_per_update,
                "updates_per_step": 1,
                "lr": stage.lr,
                "vision_lr_scale": 0.2,  # at the full rate the tower collapses to one feature
                "warmup_steps": 20,
                "betas": [0.9, 0.98],
                "token_budget": 16_384,
                "activation_checkpointing": False,
            },
            "checkpoint": {"every": 100, "keep": 1},
            "cluster": {"device": "cpu", "devices_per_node": 2, "trainer_ranks": 1, "rollout_devices": 1},
        }
    )
