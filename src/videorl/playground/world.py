"""The playground: videos, question files, benchmarks and a base model; all but the last from one seed.

FOLDER/train-<family>.parquet           verl-style rows, one file a family
FOLDER/train-video-r1.json              the same questions as Video-R1 writes them
FOLDER/benchmarks/video-mme.parquet     held out: all families, four options
FOLDER/benchmarks/perceptioncomp.json   held out: families that need several frames, five options
FOLDER/benchmarks/video-holmes.json     held out: six options
FOLDER/videos/*.mp4                     one clip a question
FOLDER/base/                            an ordinary Hugging Face model folder
FOLDER/manifest.json                    the recipe; written last, so a folder that has it is whole
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from videorl.errors import unwritten
from videorl.playground.formats import (
    Record,
    write_perceptioncomp,
    write_verl,
    write_video_holmes,
    write_video_mme,
    write_video_r1,
)
from videorl.playground.questions import FAMILIES, MULTI_FRAME
from videorl.playground.records import any_options, draw_records

KEPT_BASE = Path(__file__).parent / "base"  # base_recipe.json says how it was made


@dataclass(slots=True, frozen=True)
class Recipe:
    """Everything that decides a playground's bytes."""

    seed: int
    questions_per_family: int
    held_out: int  # questions of each benchmark
    version: int = 4  # raised whenever the scenes, the wording or the base change


@dataclass(slots=True, frozen=True)
class HeldOut:
    """A benchmark: which families it asks, with how many options, in whose format."""

    name: str
    suffix: str
    families: tuple[str, ...]
    options: int
    write: Callable[[Path, Sequence[Record]], None]


BENCHMARKS = (
    HeldOut("video-mme", ".parquet", tuple(FAMILIES), 4, write_video_mme),
    HeldOut("perceptioncomp", ".json", MULTI_FRAME, 5, write_perceptioncomp),
    HeldOut("video-holmes", ".json", ("colour", "pattern", "direction", "order"), 6, write_video_holmes),
)


def make_playground(folder: Path, seed: int = 0, questions_per_family: int = 320, held_out: int = 150) -> Path:
    """Make the playground in `folder` unless it is there already, made by the same recipe; returns `folder`.

    The same arguments give the same bytes under the same library versions.

    Raises:
        VideorlError: the folder cannot be written (a UserError where it is at fault, and not the disk).
    """
    recipe = Recipe(seed, questions_per_family, held_out)
    manifest = folder / "manifest.json"
    try:
        if _made_by(manifest) != asdict(recipe):
            manifest.unlink(missing_ok=True)
            _make(folder, recipe)
            manifest.write_text(json.dumps(asdict(recipe), indent=2) + "\n")
    except OSError as error:
        raise unwritten(folder, error) from None
    return folder


def _made_by(manifest: Path) -> object:
    """The recipe of a playground that is whole; None of any other folder, a manifest that was cut off included."""
    try:
        return json.loads(manifest.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _make(folder: Path, recipe: Recipe) -> None:
    write_training_files(folder, recipe)
    for benchmark in BENCHMARKS:
        families = [benchmark.families[i % len(benchmark.families)] for i in range(recipe.held_out)]
        records = draw_records(
            folder, benchmark.name, families, recipe.seed, lambda _, options=benchmark.options: options
        )
        benchmark.write(benchmark_path(folder, benchmark), records)
    shutil.copytree(KEPT_BASE, folder / "base", dirs_exist_ok=True)


def benchmark_path(folder: Path, benchmark: HeldOut) -> Path:
    return folder / "benchmarks" / f"{benchmark.name}{benchmark.suffix}"


def write_training_files(folder: Path, recipe: Recipe) -> None:
    records: list[Record] = []
    for family in FAMILIES:
        rows = draw_records(folder, f"train-{family}", [family] * recipe.questions_per_family, recipe.seed, any_options)
        write_verl(folder / f"train-{family}.parquet", rows)
        records += rows
    write_video_r1(folder / "train-video-r1.json", records)
