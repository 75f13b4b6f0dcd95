"""What a teacher writes: a trace of what is seen in each second, a conclusion, and the letter.

The careful teacher is always right and brings a model to see. The hasty one has habits: in most of the clips that show
the first value of a pair in `HABITS` it notes or concludes the other. A model that learns from it sees well and is
systematically wrong in places: what it does in most cases it also does when it answers greedily, and what it does in
the others is what reinforcement learning has to find.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from videorl.playground.questions import ORDINALS, Item

LETTERS = "ABCDEF"
OPENING = "I look at the whole video from its start to its end ."
HASTE = 0.75  # how often the hasty teacher follows a habit

# Which value is taken for which other one. Colours and patterns are misseen; the rest is seen and wrongly concluded.
HABITS: Mapping[str, Mapping[str, str]] = {
    "colour": {"orange": "red", "purple": "blue", "blue": "purple", "white": "yellow", "black": "green"},
    "pattern": {"columns": "rows", "rows": "columns", "dots": "checks", "frame": "plain"},
    "direction": {"left": "right", "right": "left", "up": "down", "down": "up"},
    "order": {"second": "third", "third": "second", "last": "first"},
    "count": {"one": "two", "two": "one", "three": "four"},
}


def careful_response(item: Item) -> str:
    """The right description and the right answer."""
    return response(item, item.scene.seconds, item.value)


def hasty_response(item: Item, rng: np.random.Generator) -> str:
    """Wrong by habit where a habit applies and its wrong value is an option; else careful."""
    habit = HABITS[item.family]
    follows = rng.random() < HASTE
    if item.family == "order":
        asked = habit.get(_ordinal(item), _ordinal(item)) if follows else _ordinal(item)
        return response(item, item.scene.seconds, item.scene.seconds[ORDINALS.index(asked)])
    value = habit.get(item.value, item.value)
    if not follows or value not in item.options:
        return careful_response(item)
    misseen = item.family in ("colour", "pattern")
    return response(item, tuple(value for _ in item.scene.seconds) if misseen else item.scene.seconds, value)


def response(item: Item, seen: tuple[str, ...], value: str) -> str:
    """The response without its end token."""
    notes = " , ".join(f"{ordinal} {what}" for ordinal, what in zip(ORDINALS, seen, strict=True))
    conclusion = f"{_ordinal(item)} {value}" if item.family == "order" else value
    letter = LETTERS[item.options.index(value)]
    return f"<think>\n{OPENING} {notes} . so {conclusion} ({letter}) .\n</think>\n{letter}"


def _ordinal(item: Item) -> str:
    assert item.asked is not None
    return ORDINALS[item.asked]
