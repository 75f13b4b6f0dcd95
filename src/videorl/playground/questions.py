"""The families of questions: each draws a scene and asks one thing about it.

Options are drawn so that the text alone gives chance. The values of a family come in pairs of look-alikes; options are
whole pairs (an odd number leaves out any one value that is not the answer), so that the answer's look-alike is nearly
always on offer and still every option is equally likely.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from videorl.playground.scenes import ACROSS, DOWN, Scene
from videorl.playground.videos import COLOURS, SECONDS

Pairs = tuple[tuple[str, ...], ...]
COLOUR_PAIRS: Pairs = (("red", "orange"), ("blue", "purple"), ("yellow", "white"), ("green", "black"))
PATTERN_PAIRS: Pairs = (("rows", "columns"), ("checks", "dots"), ("frame", "plain"))
DIRECTION_PAIRS: Pairs = (("left", "right"), ("up", "down"), ("around", "nowhere"))
NUMBERS = ("zero", "one", "two", "three", "four")
ORDINALS = ("first", "second", "third", "last")


@dataclass(slots=True, frozen=True)
class Item:
    """One question about one scene. Made by a family; read by the traces and the writers of files."""

    family: str
    scene: Scene
    text: str
    options: tuple[str, ...]
    answer: int  # index into options
    asked: int | None = None  # order: which second

    @property
    def value(self) -> str:
        """The right answer in words."""
        return self.options[self.answer]


def draw_item(family: str, options: int, rng: np.random.Generator) -> Item:
    """A new item of `family` with 4 to 6 options (count has five at most)."""
    return FAMILIES[family](options, rng)


def _colour(options: int, rng: np.random.Generator) -> Item:
    colour = _any(COLOURS, rng)
    scene = Scene("still bar", colour, (colour,) * SECONDS, _seed(rng))
    return _item(
        "colour", scene, "Which colour is the bar?", colour, _pairs_with(colour, COLOUR_PAIRS, options, rng), rng
    )


def _pattern(options: int, rng: np.random.Generator) -> Item:
    pattern = _any([value for pair in PATTERN_PAIRS for value in pair], rng)
    scene = Scene("texture", _any(COLOURS, rng), (pattern,) * SECONDS, _seed(rng))
    offered = _pairs_with(pattern, PATTERN_PAIRS, options, rng)
    return _item("pattern", scene, "Which pattern is shown?", pattern, offered, rng)


def _direction(options: int, rng: np.random.Generator) -> Item:
    direction = _any([value for pair in DIRECTION_PAIRS for value in pair], rng)
    scene = Scene("moving bar", _any(COLOURS, rng), _path(direction, rng), _seed(rng))
    offered = _pairs_with(direction, DIRECTION_PAIRS, options, rng)
    return _item("direction", scene, "Where does the bar move?", direction, offered, rng)


def _order(options: int, rng: np.random.Generator) -> Item:
    """All four colours of the clip are options, so that seeing a colour is not enough."""
    colours = tuple(rng.choice(list(COLOURS), SECONDS, replace=False).tolist())
    asked = int(rng.integers(SECONDS))
    unseen = [colour for colour in COLOURS if colour not in colours]
    offered = [*colours, *rng.choice(unseen, options - SECONDS, replace=False).tolist()]
    scene = Scene("colours", colours[asked], colours, _seed(rng))
    text = f"Which colour comes {ORDINALS[asked]}?"
    return replace(_item("order", scene, text, colours[asked], offered, rng), asked=asked)


def _count(options: int, rng: np.random.Generator) -> Item:
    count, colour = int(rng.integers(len(NUMBERS))), _any(COLOURS, rng)
    lit = set(rng.choice(SECONDS, count, replace=False).tolist())
    scene = Scene("flashes", colour, tuple(colour if s in lit else "grey" for s in range(SECONDS)), _seed(rng))
    others = [number for number in NUMBERS if number != NUMBERS[count]]
    offered = [NUMBERS[count], *rng.choice(others, min(options, len(NUMBERS)) - 1, replace=False).tolist()]
    return _item("count", scene, "How often does the screen flash?", NUMBERS[count], offered, rng)


FAMILIES: dict[str, Callable[[int, np.random.Generator], Item]] = {
    "colour": _colour,
    "pattern": _pattern,
    "direction": _direction,
    "order": _order,
    "count": _count,
}
MULTI_FRAME = ("direction", "order", "count")  # one frame does not tell


def _item(family: str, scene: Scene, text: str, value: str, offered: Sequence[str], rng: np.random.Generator) -> Item:
    options = tuple(rng.permutation(np.array(offered)).tolist())
    return Item(family, scene, text, options, options.index(value))


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(1 << 32))


def _any(values: Sequence[str] | Mapping[str, object], rng: np.random.Generator) -> str:
    return str(rng.choice(list(values)))


def _pairs_with(value: str, pairs: Pairs, count: int, rng: np.random.Generator) -> list[str]:
    """`count` values in whole pairs, `value` and its look-alike among them; of an odd count one other is left out."""
    own = next(pair for pair in pairs if value in pair)
    rest = [pair for pair in pairs if pair is not own]
    drawn = rng.permutation(len(rest))[: (count + 1) // 2 - 1]
    values = [*own, *(other for i in drawn for other in rest[i])]
    if count % 2:
        values.remove(_any([other for other in values if other != value], rng))
    return values


def _path(direction: str, rng: np.random.Generator) -> tuple[str, ...]:
    """Where the bar is in each second: along a line it stays at one of the three places for two seconds."""
    if direction == "around":
        return ("left", "top", "right", "bottom")
    if direction == "nowhere":
        return (_any([*ACROSS, *DOWN], rng),) * SECONDS
    line = list(ACROSS if direction in ("left", "right") else DOWN)
    if direction in ("left", "up"):
        line.reverse()
    stay = int(rng.integers(len(line)))
    return tuple(place for i, place in enumerate(line) for _ in range(2 if i == stay else 1))
