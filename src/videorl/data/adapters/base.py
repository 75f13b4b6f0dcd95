"""What an adapter says about a row, before options and answer are settled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from videorl.data.fields import plain
from videorl.data.media import MediaResolver
from videorl.types import Media

Row = Mapping[str, Any]


@dataclass(slots=True, frozen=True)
class Draft:
    """One row in our words. Made by an adapter; `settle` turns it into a Question."""

    text: str
    answer: Any  # by the general rule (letter, text or index), unless the adapter has `resolve`
    media: tuple[Media, ...]
    options: Any = None  # any shape; None: they stand at the end of the text
    labelled: bool = True  # options may carry their labels in front
    id: str | None = None  # the row's own; None: its number in the file
    source: str | None = None  # None: the file's name
    categories: Mapping[str, str] = field(default_factory=dict)
    given_prompt: str | None = None
    resolve: Callable[[Any, tuple[str, ...]], int] | None = None  # the adapter knows better what `answer` means


@dataclass(slots=True, frozen=True)
class Adapter:
    """One format: how its rows are recognised, and how one becomes a Draft."""

    name: str
    fields: frozenset[str]  # all of them must stand in the row
    draft: Callable[[Row, MediaResolver], Draft]  # raises QuestionDropped for a row that is not usable

    def recognises(self, columns: frozenset[str]) -> bool:
        return self.fields <= columns


def adapter(name: str, *fields: str) -> Callable[[Callable[[Row, MediaResolver], Draft]], Adapter]:
    """Decorates the function that drafts a row of format `name`, recognised by `fields`."""

    def wrap(draft: Callable[[Row, MediaResolver], Draft]) -> Adapter:
        return Adapter(name, frozenset(fields), draft)

    return wrap


def categories_of(row: Row, *keys: str) -> dict[str, str]:
    """The named fields that hold something, as text."""
    return {
        key.replace(" ", "_").lower(): str(value) for key in keys if (value := plain(row.get(key))) not in (None, "")
    }


def first_of(row: Row, *keys: str) -> str | None:
    """The first of these fields that holds something."""
    return next((str(value) for key in keys if (value := plain(row.get(key))) not in (None, "")), None)
