"""Items with their clips on disk: the rows that question files are written from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from videorl.playground.formats import Record
from videorl.playground.questions import draw_item
from videorl.playground.scenes import paint
from videorl.playground.videos import write_mp4


def any_options(rng: np.random.Generator) -> int:
    """Four to six."""
    return int(rng.integers(4, 7))


def draw_records(
    folder: Path,
    split: str,
    families: Sequence[str],
    seed: int,
    options: Callable[[np.random.Generator], int],
) -> list[Record]:
    """Draw a split's items, one for each entry of `families`, and write their clips.

    Every item has a random state of its own, from (seed, split, number): no split repeats another's clips.

    Args:
        folder: the clips go to `folder/videos`.
        options: how many options an item gets.
    """
    records = []
    for number, family in enumerate(families):
        rng = np.random.default_rng([seed, number, *split.encode()])
        item = draw_item(family, options(rng), rng)
        name = f"{split}-{number:05d}"
        video = f"videos/{name}.mp4"
        write_mp4(folder / video, paint(item.scene))
        records.append(Record(name, video, item))
    return records
