"""What the clips show: a Scene says it in words, `paint` in pixels (64 x 96, on a mid-grey background)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from videorl.playground.videos import COLOURS, FPS, FRAMES, HEIGHT, WIDTH, Clip, add_noise, blank_clip

# Where a moving bar can be in a second: an upright bar left to right, or a lying one top to bottom.
ACROSS = {"left": 16, "middle": 48, "right": 80}
DOWN = {"top": 12, "centre": 32, "bottom": 52}


@dataclass(slots=True, frozen=True)
class Scene:
    """What a clip shows. Made by a family of questions; painted when the clip is written."""

    kind: str  # a key of PAINTERS
    colour: str  # of the bar, the pattern or the flash
    seconds: tuple[str, ...]  # what each second shows: a colour, a pattern or a place
    seed: int  # of sizes, shifts and noise


def paint(scene: Scene) -> Clip:
    """The scene's pixels; the same scene gives the same pixels."""
    rng = np.random.default_rng(scene.seed)
    return add_noise(PAINTERS[scene.kind](scene, rng), rng)


def _still_bar(scene: Scene, rng: np.random.Generator) -> Clip:
    """A large bar, upright or lying, that stays where it is."""
    clip = blank_clip()
    if rng.integers(2):
        _paint_bar(clip, scene.colour, HEIGHT / 2, rng.uniform(20, WIDTH - 20), HEIGHT, int(rng.integers(28, 44)))
    else:
        _paint_bar(clip, scene.colour, rng.uniform(16, HEIGHT - 16), WIDTH / 2, int(rng.integers(24, 36)), WIDTH)
    return clip


def _moving_bar(scene: Scene, rng: np.random.Generator) -> Clip:
    """A large bar that jumps from place to place."""
    clip, jitter = blank_clip(), rng.uniform(-4, 4)
    for second, place in enumerate(scene.seconds):
        frames = clip[second * FPS : (second + 1) * FPS]
        if place in ACROSS:
            _paint_bar(frames, scene.colour, HEIGHT / 2, ACROSS[place] + jitter, HEIGHT, 32)
        else:
            _paint_bar(frames, scene.colour, DOWN[place] + jitter, WIDTH / 2, 24, WIDTH)
    return clip


def _texture(scene: Scene, rng: np.random.Generator) -> Clip:
    """A pattern over the whole frame, shifted at random."""
    clip = blank_clip()
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    shifted_y, shifted_x = y + rng.integers(16), x + rng.integers(16)
    row, column = shifted_y // 8 % 2, shifted_x // 8 % 2
    masks = {
        "rows": row == 0,
        "columns": column == 0,
        "checks": row == column,
        "dots": (shifted_y % 16 - 8) ** 2 + (shifted_x % 16 - 8) ** 2 < 25,
        "frame": (np.minimum(y, HEIGHT - 1 - y) < 14) | (np.minimum(x, WIDTH - 1 - x) < 14),
        "plain": np.ones_like(y, bool),
    }
    clip[:, masks[scene.seconds[0]]] = COLOURS[scene.colour]
    return clip


def _colours(scene: Scene, rng: np.random.Generator) -> Clip:
    """The whole frame in one colour a second."""
    clip = blank_clip()
    for second, colour in enumerate(scene.seconds):
        clip[second * FPS : (second + 1) * FPS] = COLOURS[colour]
    return clip


def _flashes(scene: Scene, rng: np.random.Generator) -> Clip:
    """The whole frame lights up in some seconds, with a dark moment after each: two in a row are two."""
    clip = blank_clip()
    for frame in range(FRAMES):
        second, phase = divmod(frame, FPS)
        if scene.seconds[second] == scene.colour and phase < FPS - 1:
            clip[frame] = COLOURS[scene.colour]
    return clip


PAINTERS: dict[str, Callable[[Scene, np.random.Generator], Clip]] = {
    "still bar": _still_bar,
    "moving bar": _moving_bar,
    "texture": _texture,
    "colours": _colours,
    "flashes": _flashes,
}


def _paint_bar(frames: Clip, colour: str, y: float, x: float, height: int, width: int) -> None:
    """Paint a bar around (y, x) into all of `frames`, in place."""
    top, left = round(y - height / 2), round(x - width / 2)
    frames[:, max(top, 0) : top + height, max(left, 0) : left + width] = COLOURS[colour]
