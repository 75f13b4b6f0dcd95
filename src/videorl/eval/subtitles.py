"""Subtitles of a video, as far as they are on screen at the frames that the model sees.

Video-MME's own protocol: with k frames, the subtitles shown at those k moments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from videorl.errors import UserError

_TIMES = re.compile(r"(\d+):(\d+):(\d+)[,.](\d+)\s*-->\s*(\d+):(\d+):(\d+)[,.](\d+)")
_TAG = re.compile(r"<[^>]*>|\{\\[^}]*\}")


@dataclass(slots=True, frozen=True)
class Subtitle:
    start: float  # seconds
    end: float
    text: str


def read_srt(path: Path) -> list[Subtitle]:
    """The cues of a .srt file, tags taken out.

    Raises:
        UserError: the file cannot be read as text.
    """
    try:
        blocks = re.split(r"\n\s*\n", path.read_text(encoding="utf-8-sig").replace("\r\n", "\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as subtitles: {error}") from None
    cues: list[Subtitle] = []
    for block in blocks:
        times = _TIMES.search(block)
        if times is None:
            continue
        text = " ".join(_TAG.sub("", block[times.end() :]).split())
        cues += [Subtitle(_seconds(times.groups()[:4]), _seconds(times.groups()[4:]), text)] if text else []
    return cues


def subtitles_at(cues: list[Subtitle], times: Float64[np.ndarray, "T"]) -> str:
    """The cues shown at any of these times (seconds), each once, in order, one a line."""
    return "\n".join(cue.text for cue in cues if any(cue.start <= time < cue.end for time in times))


def _seconds(parts: tuple[str, ...]) -> float:
    hours, minutes, seconds, fraction = parts
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction}")
