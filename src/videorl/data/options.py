"""Options and the right one among them: from whatever shape a row has to a tuple of texts and an index."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from typing import Any

from videorl.data.fields import as_list, as_mapping
from videorl.errors import QuestionDropped
from videorl.types import Drop, DropReason

_LETTERS = string.ascii_uppercase
_LABELLED = re.compile(r"^\s*(?:\(([A-Z])\)|([A-Z])[.):：．、])\s*(\S.*?)\s*$", re.DOTALL)
_ONE_LETTER = re.compile(r"^[(\[]?\s*([A-Za-z])\s*[)\]]?\s*[.:]?$")
_HEADING = re.compile(r"[ \t]*(?:options|choices|answer choices|candidates)[ \t]*[:：][ \t]*$", re.IGNORECASE)
_ANSWER_TAG = re.compile(r"<answer>\s*(.*?)\s*(?:</answer>|$)", re.DOTALL | re.IGNORECASE)
_BOXED = re.compile(r"^\\boxed\{(.*)\}$", re.DOTALL)


def read_options(value: Any, *, labelled: bool = True) -> tuple[str, ...]:
    """Options without their labels, from a list, a mapping of letters, an array, or either of them as JSON.

    Where they may be `labelled`, labels are taken off if every option carries one and they are A, B, C … (in any order:
    the label decides).

    Raises:
        QuestionDropped: OPTIONS_NOT_FOUND.
    """
    by_letter = as_mapping(value)
    raw = [by_letter[key] for key in sorted(by_letter)] if by_letter else as_list(value)
    while raw and (raw[-1] is None or str(raw[-1]).strip() == ""):  # columns padded to the longest row
        raw = raw[:-1]
    if by_letter and sorted(by_letter)[: len(raw)] != list(_LETTERS[: len(raw)]):
        raise _not_found(f"options are labelled {', '.join(sorted(by_letter))}, not A, B, C …")
    if any(option is None for option in raw):
        raise _not_found("an option in the middle is empty")
    options = [str(option).strip() for option in raw]
    return _checked(_without_labels(options) if labelled else options)


def split_text(text: str) -> tuple[str, tuple[str, ...]]:
    """The question and the options of a text that ends in lines like `A. x`, `A) x` or `(A) x`.

    The last run of such lines counts; what follows it (an answer instruction) is cut.

    Raises:
        QuestionDropped: OPTIONS_NOT_FOUND.
    """
    lines = text.splitlines()
    labels = [_label_of(line) for line in lines]
    starts = [i for i, label in enumerate(labels) if label == "A"]
    for start in reversed(starts):
        options: list[str] = []
        for line, label in zip(lines[start:], labels[start:], strict=True):
            if label is not None and label == _LETTERS[len(options)]:
                options.append(line)
            elif line.strip():
                break
        if len(options) >= 2:
            *before, last = "\n".join(lines[:start]).rstrip().rsplit("\n", 1)
            return "\n".join([*before, _HEADING.sub("", last)]).strip(), _checked(_without_labels(options))
    raise _not_found("no lines like 'A. x' in the text")


def resolve_answer(value: Any, options: Sequence[str]) -> int:
    """The index of the right option.

    A string is a letter ("B", "(B)", "B.", "B. text", `<answer>B</answer>`), else the text of exactly one option, else
    a number; a number is a 0-based index.

    Raises:
        QuestionDropped: ANSWER_UNRESOLVED.
    """
    if isinstance(value, str):
        index = _resolve_string(value, options)
    elif isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0:
        index = int(value)
    else:
        index = None
    if index is None or not 0 <= index < len(options):
        raise QuestionDropped(
            Drop(
                DropReason.ANSWER_UNRESOLVED,
                f"answer {value!r} names none of the {len(options)} options, or several; "
                f"write a letter up to {_LETTERS[len(options) - 1]}, the text of one option or its number from 0",
            )
        )
    return index


def index_of_text(answer: Any, options: Sequence[str]) -> int:
    """The one option whose text is `answer`, for formats whose answers are texts even where they look like a letter.

    Raises:
        QuestionDropped: ANSWER_UNRESOLVED.
    """
    index = _unique_text(str(answer), options)
    if index is None:
        raise QuestionDropped(
            Drop(DropReason.ANSWER_UNRESOLVED, f"answer {answer!r} is not the text of exactly one option")
        )
    return index


def _resolve_string(value: str, options: Sequence[str]) -> int | None:
    text = unicodedata.normalize("NFKC", value).strip()
    if tagged := _ANSWER_TAG.search(text):
        text = tagged.group(1)
    if boxed := _BOXED.match(text):
        text = boxed.group(1).strip()
    if letter := _ONE_LETTER.match(text):
        index = _LETTERS.index(letter.group(1).upper())
        if index < len(options):
            return index
    elif labelled := _LABELLED.match(text):
        index = _LETTERS.index(labelled.group(1) or labelled.group(2))
        if index < len(options):
            return index
    by_text = _unique_text(text, options)
    if by_text is not None:
        return by_text
    return int(text) if re.fullmatch(r"\d{1,2}", text) else None


def _unique_text(answer: str, options: Sequence[str]) -> int | None:
    for plain in (_squeeze, _fold):
        matches = [i for i, option in enumerate(options) if plain(option) == plain(answer)]
        if len(matches) == 1 and plain(answer):
            return matches[0]
    return None


def _squeeze(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _fold(text: str) -> str:
    return _squeeze(text).casefold().rstrip(".")


def _label_of(line: str) -> str | None:
    match = _LABELLED.match(line)
    return (match.group(1) or match.group(2)) if match else None


def _without_labels(options: list[str]) -> list[str]:
    labels = [_label_of(option) for option in options]
    if sorted(label or "" for label in labels) != list(_LETTERS[: len(options)]):
        return options
    texts = {label: match.group(3) for label, o in zip(labels, options, strict=True) if (match := _LABELLED.match(o))}
    return [texts[letter] for letter in _LETTERS[: len(options)]]


def _checked(options: list[str]) -> tuple[str, ...]:
    if not 2 <= len(options) <= len(_LETTERS):
        raise _not_found(f"{len(options)} options; a question needs 2 to {len(_LETTERS)}")
    if any(not option for option in options):
        raise _not_found("an option in the middle is empty")
    return tuple(options)


def _not_found(detail: str) -> QuestionDropped:
    return QuestionDropped(Drop(DropReason.OPTIONS_NOT_FOUND, f"options not found: {detail}"))
