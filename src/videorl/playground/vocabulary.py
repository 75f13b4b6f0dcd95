"""The words of the playground: what becomes one token each in its tiny tokenizer."""

from __future__ import annotations

from videorl.data.templates import LETTER_INSTRUCTION
from videorl.playground.questions import COLOUR_PAIRS, DIRECTION_PAIRS, NUMBERS, ORDINALS, PATTERN_PAIRS
from videorl.playground.scenes import ACROSS, DOWN
from videorl.playground.traces import LETTERS, OPENING

_PAIRED = (*COLOUR_PAIRS, *PATTERN_PAIRS, *DIRECTION_PAIRS)
VALUES = (*(value for pair in _PAIRED for value in pair), *NUMBERS)
_QUESTIONS = (
    "Which colour is the bar? Which pattern is shown? Where does the bar move? How often does the screen flash?"
)
_ORDERS = f"Which colour comes {' '.join(f'{ordinal}?' for ordinal in ORDINALS)}"
_TRACES = f"{OPENING} {' '.join(ORDINALS)} {' '.join(VALUES)} {' '.join((*ACROSS, *DOWN))} grey , . so"
_TIMES = tuple(f"<{time:.1f}" for time in (0.2, 1.4, 2.5, 3.6))  # of a whole clip's frame pairs


def _words(text: str) -> set[str]:
    """Each word by itself and with a space before it."""
    words = text.replace("<think>", " ").replace("</think>", " ").split()
    return {*words, *(f" {word}" for word in words)}


WORDS: tuple[str, ...] = tuple(
    sorted(
        {
            *_words(" ".join((LETTER_INSTRUCTION, _QUESTIONS, _ORDERS, _TRACES))),
            *(f"{letter}. {value}" for letter in LETTERS for value in VALUES),
            *(f" ({letter})" for letter in LETTERS),
            *("user", "assistant", "system", "\n", "\n\n", " seconds>", *_TIMES, *LETTERS, *"0123456789"),
        }
    )
)
