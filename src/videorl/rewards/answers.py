"""What was answered: from a completion to the letter of one offered option, or to none.

    completion ─normalise→ text ─</think>→ tail ─<answer>, \\boxed→ candidate ─letter, label, declaration, text→ choice

A choice is read only where the response commits itself to exactly one option, after its reasoning. Never a random
letter, never the first capital of prose, never a part of an option's text. Every step is linear in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from videorl.rewards.declarations import last_declaration, leading_label, whole_letters

_SPECIAL_TOKENS = re.compile(r"<\|[A-Za-z0-9_]{1,40}\|>|</?s>|<eos>|<pad>|<(?:start|end)_of_turn>")
_THINK_TAG = re.compile(r"<(/?)think>", re.IGNORECASE)
_ANSWER_OPEN = re.compile(r"<answer>", re.IGNORECASE)
_ANSWER_CLOSE = re.compile(r"</answer>", re.IGNORECASE)
_BRACES = re.compile(r"(\\boxed ?)?\{|\}")
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit) ?\{([^{}]*)\}")
_EMPHASIS = re.compile(r"\*|`|__|(?<!\w)_|_(?!\w)")
_LEAD_IN = re.compile(r"(?:final answer ?:|answer ?:|option\b ?:?) ?", re.IGNORECASE)
_BRACKETS = {"(": ")", "[": "]", "{": "}", '"': '"', "'": "'", "“": "”"}
_WRAPPINGS = 8  # layers of brackets and lead-ins that are taken off; a bound, so that "((((…" stays linear
_NORMAL_CHUNK = 256  # NFKC sorts runs of combining marks in quadratic time; a piece at a time it cannot


@dataclass(slots=True, frozen=True)
class Response:
    """A completion, normalised and taken apart at its think tags."""

    thoughts: str | None  # inside the one think pair that opens the text, stripped; None where there is no such pair
    tail: str  # after the last "</think>"; empty where a "<think>" was never closed


def read_response(completion: str, *, thinks: bool) -> Response:
    """Normalise a completion; `thinks`: the prompt already opened "<think>", which is put back in front."""
    text = normalise(completion)
    text = ("<think>" + text if thinks else text).strip()
    tags = list(_THINK_TAG.finditer(text))
    thoughts = None
    if [tag[0] for tag in tags] == ["<think>", "</think>"] and tags[0].start() == 0:
        thoughts = text[tags[0].end() : tags[1].start()].strip()
    if not tags:
        return Response(thoughts, text)
    last = tags[-1]
    return Response(thoughts, text[last.end() :].strip() if last[1] else "")


def read_choice(tail: str, options: Sequence[str]) -> str | None:
    """The letter of the one option that `tail` answers with, or None."""
    candidate = plain(find_candidate(tail))
    bare = _unwrap(candidate)
    named = whole_letters(bare) or leading_label(bare) or last_declaration(candidate)
    if len(named) == 1 and named in ascii_uppercase[: len(options)]:
        return named
    index = find_option(candidate, options)
    if index is None:
        index = find_option(bare, options)
    return None if index is None else ascii_uppercase[index]


def find_candidate(tail: str) -> str:
    """The last `<answer>` block of the tail (an unclosed one runs to the end), else the tail; in it, the last box."""
    block = tail
    opened = list(_ANSWER_OPEN.finditer(tail))
    if opened:
        block = tail[opened[-1].end() :]
        closed = _ANSWER_CLOSE.search(block)
        block = block[: closed.start()] if closed else block
    boxes = find_boxes(block)
    return boxes[-1] if boxes else block


def find_boxes(text: str) -> list[str]:
    r"""The contents of every balanced `\boxed{…}` in order; of nested boxes only the innermost."""
    open_braces: list[int | None] = []  # where the content of a box begins; None for an ordinary brace
    found: list[tuple[int, int]] = []
    for brace in _BRACES.finditer(text):
        if brace[0] != "}":
            open_braces.append(brace.end() if brace[1] else None)
        elif open_braces and (start := open_braces.pop()) is not None:
            holds_a_box = found and found[-1][0] > start
            if not holds_a_box:
                found.append((start, brace.start()))
    return [text[start:end] for start, end in found]


def find_option(text: str, options: Sequence[str]) -> int | None:
    """The index of the only option whose whole text this is, after normalising; None where there is none or several."""
    wanted = _comparable(text)
    if not wanted:
        return None
    same = [i for i, option in enumerate(options[: len(ascii_uppercase)]) if _comparable(normalise(option)) == wanted]
    return same[0] if len(same) == 1 else None


def normalise(text: str) -> str:
    """NFKC, without end-of-text and chat tokens."""
    if not text.isascii():
        pieces = (text[i : i + _NORMAL_CHUNK] for i in range(0, len(text), _NORMAL_CHUNK))
        text = "".join(unicodedata.normalize("NFKC", piece) for piece in pieces)
    return _SPECIAL_TOKENS.sub("", text)


def plain(text: str) -> str:
    r"""Without `\text{…}` and markdown emphasis; white space collapsed, line breaks kept, empty lines left out."""
    text = _EMPHASIS.sub("", _LATEX_TEXT.sub(r"\1", text))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _unwrap(text: str) -> str:
    """Without brackets, quotes and "Answer:" around the whole."""
    for _ in range(_WRAPPINGS):
        before = text
        lead_in = _LEAD_IN.match(text)
        if lead_in:
            text = text[lead_in.end() :].strip()
        closing = _BRACKETS.get(text[:1])
        if closing and len(text) > 2 and text[-1] == closing and closing not in text[1:-1]:
            text = text[1:-1].strip()
        if text == before:
            break
    return text


def _comparable(text: str) -> str:
    return " ".join(plain(text).casefold().split()).strip(" .。\"'“”")
