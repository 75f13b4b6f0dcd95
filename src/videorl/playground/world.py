"""The playground: videos, question files and a base model, made from one seed.

FOLDER/train-<family>.parquet   verl-style rows, one file a family
FOLDER/train-video-r1.json      the same questions as Video-R1 writes them
FOLDER/videos/*.mp4             one clip a question
FOLDER/base/                    an ordinary Hugging Face model folder
FOLDER/manifest.json            the recipe; written last, so a folder that has it is whole
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from videorl.playground.formats import Record, write_verl, write_video_r1
from videorl.playground.questions import FAMILIES, draw_item
from videorl.playground.tiny_model import make_tiny_model
from videorl.playground.videos import write_mp4


@dataclass(slots=True, frozen=True)
class Recipe:
    """Everything that decides a playground's bytes."""

    seed: int
    questions_per_family: int = 200
    version: int = 1  # raised whenever the scenes, the wording or the model change


def make_playground(folder: Path, seed: int = 0, questions_per_family: int = 200) -> Path:
    """Make the playground in `folder` unless it is there already, made by the same recipe; returns `folder`."""
    recipe = Recipe(seed, questions_per_family)
    manifest = folder / "manifest.json"
    if manifest.is_file() and json.loads(manifest.read_text()) == asdict(recipe):
        return folder
    manifest.unlink(missing_ok=True)
    records = {family: make_records(folder, family, "train", recipe) for family in FAMILIES}
    for family, rows in records.items():
        write_verl(folder / f"train-{family}.parquet", rows)
    write_video_r1(folder / "train-video-r1.json", [row for rows in records.values() for row in rows])
    make_tiny_model(folder / "base", seed)
    manifest.write_text(json.dumps(asdict(recipe), indent=2) + "\n")
    return folder


def make_records(folder: Path, family: str, split: str, recipe: Recipe) -> list[Record]:
    """Draw a split's items of one family, write their clips and name them."""
    records = []
    for number in range(recipe.questions_per_family):
        rng = np.random.default_rng([recipe.seed, *f"{split}/{family}".encode(), number])
        item = draw_item(family, int(rng.integers(4, 7)), rng)
        video = f"videos/{split}-{family}-{number:05d}.mp4"
        write_mp4(folder / video, item.clip)
        records.append(Record(f"{split}-{family}-{number:05d}", video, item))
    return records
