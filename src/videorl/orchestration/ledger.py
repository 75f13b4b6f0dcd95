"""What became of every question of every epoch.

    pending ──issue──► issued ──► trained | dropped
       ▲                  │           │        │
       └──── release ─────┴─ rewind(K): what was settled after fit step K

Invariant: each (epoch, position) has exactly one row in exactly one state, and a settled row names the fit step in
which it was settled. So after any crash, rewinding to the last complete checkpoint leaves each question trained once
by the weights that go on, dropped with its reason, or still to be asked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from jaxtyping import Int64

from videorl.errors import UserError, VideorlError
from videorl.orchestration.files import to_disk
from videorl.types import Drop, IssuedQuestion, Question

_LOCK_SECONDS = 5.0

# The partial index makes "the next pending one" a look-up however many are settled before it.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS questions (
    epoch    INTEGER NOT NULL,
    position INTEGER NOT NULL,
    question TEXT    NOT NULL,
    state    TEXT    NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'issued', 'trained', 'dropped')),
    step     INTEGER CHECK ((step IS NOT NULL) = (state IN ('trained', 'dropped'))),
    reason   TEXT    CHECK ((reason IS NOT NULL) = (state = 'dropped')),
    PRIMARY KEY (epoch, position)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pending ON questions (epoch, position) WHERE state = 'pending';
CREATE INDEX IF NOT EXISTS settled ON questions (step) WHERE step IS NOT NULL;
"""


class Order(Protocol):
    """The questions of each epoch in the order in which they are asked, the same whenever asked (data/dataset.py)."""

    def __len__(self) -> int:
        """Questions of one epoch."""
        ...

    def question(self, index: int) -> Question:
        """The `index`-th question in the files' order."""
        ...

    def order(self, epoch: int) -> Int64[np.ndarray, "N"]:
        """Which question stands at each position of an epoch."""
        ...


@dataclass(slots=True, frozen=True)
class Counts:
    """How many questions stand in each state."""

    pending: int = 0
    issued: int = 0
    trained: int = 0
    dropped: int = 0


class Ledger:
    """The ledger of one run, in one SQLite file. Epochs follow each other without a gap.

    Raises:
        UserError: the file belongs to other data.
        VideorlError: the file cannot be read or written (disk full, locked by another process), in one line.
    """

    def __init__(self, path: Path, order: Order, epochs: int) -> None:
        self._path = path
        self._order = order
        with self._one_line():
            self._db = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            # A commit outlives the process; a power cut too after `to_disk`, and what came later is rewound anyway.
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_SCHEMA)
        self._lay_out(epochs)

    def issue(self) -> IssuedQuestion | None:
        """The next pending question, now issued; None when every question has been issued."""
        with self._transaction():
            row = self._db.execute(
                "SELECT epoch, position, question FROM questions WHERE state = 'pending' "
                "ORDER BY epoch, position LIMIT 1"
            ).fetchone()
            if row is None:
                return None
            epoch, position, known_as = row
            question = self._order.question(int(self._order.order(epoch)[position]))
            if question.id != known_as:
                raise UserError(
                    f"{self._path}: question {position} of epoch {epoch} was {known_as}, but the data now gives "
                    f"{question.id}: restore the data files or start in a new run.dir"
                )
            self._db.execute("UPDATE questions SET state = 'issued' WHERE epoch = ? AND position = ?", row[:2])
        return IssuedQuestion(epoch, position, question)

    def trained(self, questions: Iterable[IssuedQuestion], step: int) -> None:
        """Their groups stood in an update of fit step `step`."""
        self._settle(questions, "trained", step, None)

    def dropped(self, question: IssuedQuestion, drop: Drop, step: int) -> None:
        """It gave no group; `step` is the fit step under way."""
        self._settle((question,), "dropped", step, drop.reason.value)

    def release(self) -> int:
        """What is in flight goes back to pending; how many that were."""
        with self._transaction():
            return self._db.execute("UPDATE questions SET state = 'pending' WHERE state = 'issued'").rowcount

    def rewind(self, step: int) -> int:
        """What was settled after fit step `step`, and what was in flight, goes back to pending; how many that were."""
        with self._transaction():
            return self._db.execute(
                "UPDATE questions SET state = 'pending', step = NULL, reason = NULL WHERE step > ? OR state = 'issued'",
                (step,),
            ).rowcount

    def counts(self) -> Counts:
        """All states as they stand."""
        return self._count("")

    def settled(self, step: int) -> Counts:
        """What was trained and dropped up to fit step `step`."""
        return self._count(f"WHERE step <= {step:d}")

    def to_disk(self) -> None:
        """Make what has been settled outlive a power cut; a checkpoint counts on it."""
        for path in (self._path, self._path.with_name(self._path.name + "-wal")):
            if path.exists():
                to_disk(path)

    def close(self) -> None:
        self._db.close()

    def _lay_out(self, epochs: int) -> None:
        """One row for each question of each epoch, once."""
        size = len(self._order)
        with self._transaction():
            (known,) = self._db.execute("SELECT count(*) FROM questions").fetchone()
            if known == 0:
                names = [self._order.question(index).id for index in range(size)]
                for epoch in range(epochs):
                    self._db.executemany(
                        "INSERT INTO questions (epoch, position, question) VALUES (?, ?, ?)",
                        ((epoch, position, names[i]) for position, i in enumerate(self._order.order(epoch).tolist())),
                    )
            elif known != epochs * size:
                raise UserError(
                    f"{self._path}: holds {known} questions, but the data now gives {epochs} x {size}: "
                    f"restore the data files or start in a new run.dir"
                )

    def _settle(self, questions: Iterable[IssuedQuestion], state: str, step: int, reason: str | None) -> None:
        with self._transaction():
            for question in questions:
                changed = self._db.execute(
                    "UPDATE questions SET state = ?, step = ?, reason = ? "
                    "WHERE epoch = ? AND position = ? AND state = 'issued'",
                    (state, step, reason, question.epoch, question.position),
                ).rowcount
                if not changed:
                    raise VideorlError(f"{self._path}: question {question.key} cannot be {state}: it was not in flight")

    def _count(self, where: str) -> Counts:
        with self._one_line():
            rows = self._db.execute(f"SELECT state, count(*) FROM questions {where} GROUP BY state").fetchall()
        return Counts(**dict(rows))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._one_line():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite itself rolls back when the disk is full
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise VideorlError(f"{self._path}: the ledger cannot be used: {error}") from error
