"""The families of questions: each draws a scene and asks one thing about it.

An `Item` is a clip with a question whose options are drawn so that the text alone gives chance: the answer is uniform
over the values, its place is uniform over the letters, and nothing in the wording depends on it. `seen` is what a
careful viewer would note about each second of the clip; the supervised traces are written from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from videorl.playground.videos import COLOURS, FPS, FRAMES, HEIGHT, SECONDS, WIDTH, Clip, add_noise, blank_clip

PATTERNS = ("rows", "columns", "checks", "dots", "frame", "plain")
DIRECTIONS = ("left", "right", "up", "down", "nowhere", "around")
NUMBERS = ("zero", "one", "two", "three", "four", "five")
ORDINALS = ("first", "second", "third", "last")
PLACES = {"left": (0, 16), "middle": (0, 48), "right": (0, 80), "top": (12, 0), "centre": (32, 0), "bottom": (52, 0)}


@dataclass(slots=True, frozen=True)
class Item:
    """One question with its clip. Made by a family; read by the writers of files."""

    family: str
    clip: Clip
    text: str
    options: tuple[str, ...]
    answer: int  # index into options
    seen: tuple[str, ...]  # one word for each second


def draw_item(family: str, options: int, rng: np.random.Generator) -> Item:
    """A new item of `family` with 4 to 6 options."""
    return FAMILIES[family](options, rng)


def _choose(values: tuple[str, ...], right: str, count: int, rng: np.random.Generator) -> tuple[tuple[str, ...], int]:
    """`right` among `count` shuffled options, the others drawn from `values`."""
    others = [value for value in values if value != right]
    options = [right, *rng.choice(others, count - 1, replace=False).tolist()]
    order = rng.permutation(count).tolist()
    return tuple(options[i] for i in order), order.index(0)


def _paint_bar(clip: Clip, frame: int, colour: str, y: float, x: float, height: int, width: int) -> None:
    top, left = round(y - height / 2), round(x - width / 2)
    clip[frame, max(top, 0) : top + height, max(left, 0) : left + width] = COLOURS[colour]


def _colour(options: int, rng: np.random.Generator) -> Item:
    """A large bar, upright or lying, anywhere: one frame is enough."""
    clip, colour = blank_clip(), str(rng.choice(list(COLOURS)))
    upright = bool(rng.integers(2))
    size = (HEIGHT, int(rng.integers(28, 44))) if upright else (int(rng.integers(24, 36)), WIDTH)
    y = HEIGHT / 2 if upright else rng.uniform(16, HEIGHT - 16)
    x = rng.uniform(20, WIDTH - 20) if upright else WIDTH / 2
    for frame in range(FRAMES):
        _paint_bar(clip, frame, colour, y, x, *size)
    choices, answer = _choose(tuple(COLOURS), colour, options, rng)
    return Item("colour", add_noise(clip, rng), "Which colour is the bar?", choices, answer, (colour,) * SECONDS)


def _pattern(options: int, rng: np.random.Generator) -> Item:
    """A full-frame texture in one colour on grey: one frame is enough."""
    clip, pattern, colour = blank_clip(), str(rng.choice(PATTERNS)), str(rng.choice(list(COLOURS)))
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    shift_y, shift_x = rng.integers(16, size=2)
    row, column = (y + shift_y) // 8 % 2, (x + shift_x) // 8 % 2
    mask = {
        "rows": row == 0,
        "columns": column == 0,
        "checks": row == column,
        "dots": (((y + shift_y) % 16 - 8) ** 2 + ((x + shift_x) % 16 - 8) ** 2) < 25,
        "frame": (np.minimum(y, HEIGHT - 1 - y) < 14) | (np.minimum(x, WIDTH - 1 - x) < 14),
        "plain": np.ones_like(y, bool),
    }[pattern]
    clip[:, mask] = COLOURS[colour]
    choices, answer = _choose(PATTERNS, pattern, options, rng)
    return Item("pattern", add_noise(clip, rng), "Which pattern is shown?", choices, answer, (pattern,) * SECONDS)


def _direction(options: int, rng: np.random.Generator) -> Item:
    """A large bar that moves: a single frame does not tell."""
    clip, direction, colour = blank_clip(), str(rng.choice(DIRECTIONS)), str(rng.choice(list(COLOURS)))
    horizontal = ("left", "middle", "right")
    vertical = ("top", "centre", "bottom")
    if direction == "around":
        path = ("left", "top", "right", "bottom")
    elif direction == "nowhere":
        path = (str(rng.choice(list(PLACES))),) * SECONDS
    else:
        line = horizontal if direction in ("left", "right") else vertical
        line = line[::-1] if direction in ("left", "up") else line
        held = int(rng.integers(3))  # one of the three places lasts two seconds
        path = tuple(place for i, place in enumerate(line) for _ in range(2 if i == held else 1))
    jitter = rng.uniform(-4, 4)
    for frame in range(FRAMES):
        y, x = PLACES[path[frame // FPS]]
        if x:
            _paint_bar(clip, frame, colour, HEIGHT / 2, x + jitter, HEIGHT, 32)
        else:
            _paint_bar(clip, frame, colour, y + jitter, WIDTH / 2, 24, WIDTH)
    choices, answer = _choose(DIRECTIONS, direction, options, rng)
    return Item("direction", add_noise(clip, rng), "Where does the bar move?", choices, answer, path)


def _order(options: int, rng: np.random.Generator) -> Item:
    """Four full-frame colours, one a second; all four are options, so seeing a colour is not enough."""
    clip = blank_clip()
    colours = tuple(rng.choice(list(COLOURS), SECONDS, replace=False).tolist())
    for frame in range(FRAMES):
        clip[frame] = COLOURS[colours[frame // FPS]]
    asked = int(rng.integers(SECONDS))
    rest = [colour for colour in COLOURS if colour not in colours]
    pool = [*colours, *rng.choice(rest, options - SECONDS, replace=False).tolist()]
    order = rng.permutation(options).tolist()
    choices = tuple(pool[i] for i in order)
    text = f"Which colour comes {ORDINALS[asked]}?"
    return Item("order", add_noise(clip, rng), text, choices, order.index(asked), colours)


def _count(options: int, rng: np.random.Generator) -> Item:
    """The screen flashes in some of the four seconds; zero to four times."""
    clip, colour = blank_clip(), str(rng.choice(list(COLOURS)))
    count = int(rng.integers(SECONDS + 1))
    lit = set(rng.choice(SECONDS, count, replace=False).tolist())
    for frame in range(FRAMES):
        second, phase = divmod(frame, FPS)
        if second in lit and phase < FPS - 1:  # dark in between, so that two in a row are two
            clip[frame] = COLOURS[colour]
    choices, answer = _choose(NUMBERS, NUMBERS[count], options, rng)
    seen = tuple(colour if second in lit else "grey" for second in range(SECONDS))
    return Item("count", add_noise(clip, rng), "How often does the screen flash?", choices, answer, seen)


FAMILIES: dict[str, Callable[[int, np.random.Generator], Item]] = {
    "colour": _colour,
    "pattern": _pattern,
    "direction": _direction,
    "order": _order,
    "count": _count,
}
MULTI_FRAME = ("direction", "order", "count")
QUESTION_TEXTS = (
    "Which colour is the bar?",
    "Which pattern is shown?",
    "Where does the bar move?",
    *(f"Which colour comes {ordinal}?" for ordinal in ORDINALS),
    "How often does the screen flash?",
)
VALUES = (*COLOURS, *PATTERNS, *DIRECTIONS, *NUMBERS)
