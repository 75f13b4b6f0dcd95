"""What the check keeps of the questions: tables in a temporary SQLite file, so that memory does not grow with the rows.

known(id, content)                       ids that are taken, and what they ask
question(number, content, text, tokens)  one row for each question kept
shows(question, place, medium)           its media
medium(number, key, name, packed, …)     each distinct medium once

Texts stand there as 64-bit hashes: among a million, two that differ are taken for one with a chance of 3 in 10⁸.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from videorl.data.media import media_key, unpacked_media
from videorl.errors import VideorlError
from videorl.types import Media, Question

_CACHE_KIB = 4096
_TABLES = f"""
PRAGMA cache_size = -{_CACHE_KIB};
PRAGMA temp_store = FILE;
PRAGMA journal_mode = OFF;
CREATE TABLE known (id INTEGER PRIMARY KEY, content INTEGER);
CREATE TABLE question (number INTEGER PRIMARY KEY, content INTEGER, text INTEGER, tokens INTEGER);
CREATE TABLE shows (question INTEGER, place INTEGER, medium INTEGER, PRIMARY KEY (question, place)) WITHOUT ROWID;
CREATE TABLE medium (number INTEGER PRIMARY KEY, key INTEGER UNIQUE, name INTEGER, packed TEXT,
                     bad INTEGER DEFAULT 0, tokens INTEGER DEFAULT 0);
CREATE TABLE other_text (text INTEGER PRIMARY KEY);
CREATE TABLE other_name (name INTEGER PRIMARY KEY);
"""


@contextmanager
def seen_on_disk() -> Iterator[Seen]:
    """Empty tables in a file that has no name and goes with them.

    Raises:
        VideorlError: the temporary file cannot be written.
    """
    tables = sqlite3.connect("")
    try:
        tables.executescript(_TABLES)
        yield Seen(tables)
    except sqlite3.Error as error:
        raise VideorlError(f"the check's temporary file: {error}; TMPDIR names the folder where it lies") from None
    finally:
        tables.close()


class KnownIds:
    """Hash of an id → hash of what it asks."""

    def __init__(self, tables: sqlite3.Connection) -> None:
        self._tables = tables

    def get(self, name: int, /) -> int | None:
        return _one(self._tables.execute("SELECT content FROM known WHERE id = ?", (name,)))

    def __setitem__(self, name: int, content: int, /) -> None:
        self._tables.execute("INSERT INTO known VALUES (?, ?)", (name, content))


class Seen:
    """The questions that a run would ask, and their media."""

    def __init__(self, tables: sqlite3.Connection) -> None:
        self._tables = tables
        self.ids = KnownIds(tables)

    def add(self, question: Question, text_tokens: int) -> None:
        media = [self._number(medium) for medium in question.media]
        content = hash((question.text, question.options, tuple(media)))
        added = self._tables.execute(
            "INSERT INTO question (content, text, tokens) VALUES (?, ?, ?)",
            (content, _asked(question), text_tokens),
        )
        shown = ((added.lastrowid, place, medium) for place, medium in enumerate(media))
        self._tables.executemany("INSERT INTO shows VALUES (?, ?, ?)", shown)

    def media(self) -> Iterator[tuple[int, Media]]:
        """Each distinct medium with its number, in the order in which they were met. They may be marked meanwhile."""
        for number, packed in self._tables.execute("SELECT number, packed FROM medium ORDER BY number"):
            yield number, unpacked_media(json.loads(packed))

    def mark_bad(self, medium: int) -> None:
        self._tables.execute("UPDATE medium SET bad = 1 WHERE number = ?", (medium,))

    def set_tokens(self, medium: int, tokens: int) -> None:
        self._tables.execute("UPDATE medium SET tokens = ? WHERE number = ?", (tokens, medium))

    def distinct_media(self) -> int:
        return self._count("SELECT count(*) FROM medium")

    def repeated(self) -> int:
        """Questions that ask the same about the same media as one before them."""
        return self._count("SELECT count(*) - count(DISTINCT content) FROM question")

    def with_bad_media(self) -> int:
        """Questions that show a medium marked as bad."""
        return self._count(
            "SELECT count(DISTINCT question) FROM shows JOIN medium ON shows.medium = medium.number WHERE bad"
        )

    def prompt_tokens(self) -> array[int]:
        """Of each question: its text's and its media's."""
        return array(
            "l",
            (
                tokens
                for (tokens,) in self._tables.execute(
                    """SELECT question.tokens + coalesce(sum(medium.tokens), 0) FROM question
                       LEFT JOIN shows ON shows.question = question.number
                       LEFT JOIN medium ON medium.number = shows.medium
                       GROUP BY question.number ORDER BY question.number"""
                )
            ),
        )

    def shared_with(self, others: Iterable[Question]) -> tuple[int, int]:
        """How many questions stand among `others` by text and options, and how many by the name of a video."""
        self._tables.executescript("DELETE FROM other_text; DELETE FROM other_name;")
        for other in others:
            self._tables.execute("INSERT OR IGNORE INTO other_text VALUES (?)", (_asked(other),))
            names = ((_name(medium),) for medium in other.media)
            self._tables.executemany("INSERT OR IGNORE INTO other_name VALUES (?)", names)
        by_text = self._count("SELECT count(*) FROM question JOIN other_text USING (text)")
        by_name = self._count(
            """SELECT count(DISTINCT question) FROM shows
               JOIN medium ON shows.medium = medium.number JOIN other_name USING (name)"""
        )
        return by_text, by_name

    def _number(self, medium: Media) -> int:
        key = media_key(medium)
        number = _one(self._tables.execute("SELECT number FROM medium WHERE key = ?", (key,)))
        if number is None:
            values = (key, _name(medium), json.dumps(asdict(medium)))
            number = self._tables.execute("INSERT INTO medium (key, name, packed) VALUES (?, ?, ?)", values).lastrowid
        assert number is not None
        return number

    def _count(self, query: str) -> int:
        return _one(self._tables.execute(query)) or 0


def _one(cursor: sqlite3.Cursor) -> int | None:
    row = cursor.fetchone()
    return row[0] if row else None


def _asked(question: Question) -> int:
    """The text and the options, in whatever order: many benchmarks ask the same words of every video."""
    return hash((_folded(question.text), *sorted(map(_folded, question.options))))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _name(medium: Media) -> int:
    return hash(Path(medium.path).stem.casefold())
