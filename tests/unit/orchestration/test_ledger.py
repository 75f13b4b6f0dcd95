from __future__ import annotations

import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders_orchestration import ToyOrder, question
from videorl.data.dataset import Dataset
from videorl.errors import UserError, VideorlError
from videorl.orchestration.ledger import Counts, Ledger
from videorl.types import Drop, DropReason, IssuedQuestion, Question

DROP = Drop(DropReason.VIDEO_BROKEN, "clip.mp4: no picture in it")


def take(ledger: Ledger, count: int) -> list[IssuedQuestion]:
    issued = [ledger.issue() for _ in range(count)]
    return [i for i in issued if i is not None]


def test_epochs_follow_each_other_without_a_gap_and_then_nothing_is_left(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite", ToyOrder(3), epochs=2)
    assert [i.key for i in take(ledger, 10)] == [f"{e}:toy/{i}" for e in (0, 1) for i in range(3)]
    assert ledger.counts() == Counts(issued=6)


def test_the_dataset_gives_each_epoch_its_own_order(tmp_path: Path) -> None:
    dataset = Dataset((question(i) for i in range(50)), seed=3)
    ledger = Ledger(tmp_path / "ledger.sqlite", dataset, epochs=2)
    asked = take(ledger, 100)
    assert asked == [dataset.issued(epoch, position) for epoch in (0, 1) for position in range(50)]
    assert [i.question.id for i in asked[:50]] != [i.question.id for i in asked[50:]]


def test_each_state_is_counted_and_a_drop_keeps_its_reason(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite", ToyOrder(5), epochs=1)
    first, second, third = take(ledger, 3)
    ledger.trained([first], step=1)
    ledger.dropped(second, DROP, step=2)
    assert ledger.counts() == Counts(pending=2, issued=1, trained=1, dropped=1)
    assert ledger.settled(1) == Counts(trained=1)
    rows = sqlite3.connect(tmp_path / "ledger.sqlite").execute("SELECT * FROM questions ORDER BY position").fetchall()
    assert rows[:4] == [
        (0, 0, "toy/0", "trained", 1, None),
        (0, 1, "toy/1", "dropped", 2, "video_broken"),
        (0, 2, "toy/2", "issued", None, None),
        (0, 3, "toy/3", "pending", None, None),
    ]
    assert third.position == 2


def test_rewinding_takes_back_what_came_after_and_what_was_in_flight(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite", ToyOrder(6), epochs=1)
    a, b, c, d, e = take(ledger, 5)
    ledger.trained([a], step=1)
    ledger.dropped(b, DROP, step=1)
    ledger.trained([d], step=2)
    ledger.dropped(e, DROP, step=2)
    assert ledger.rewind(1) == 3
    assert ledger.counts() == Counts(pending=4, trained=1, dropped=1)
    assert [i.position for i in take(ledger, 9)] == [c.position, d.position, e.position, 5]


def test_what_is_released_is_asked_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite", ToyOrder(3), epochs=1)
    ledger.trained(take(ledger, 1), step=1)
    take(ledger, 1)
    assert ledger.release() == 1
    assert [i.position for i in take(ledger, 9)] == [1, 2]


def test_a_question_is_settled_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite", ToyOrder(3), epochs=1)
    (first,) = take(ledger, 1)
    ledger.trained([first], step=1)
    with pytest.raises(VideorlError, match="0:toy/0 cannot be trained: it was not in flight"):
        ledger.trained([first], step=2)


def test_settling_several_is_all_or_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite", ToyOrder(3), epochs=1)
    (first,) = take(ledger, 1)
    with pytest.raises(VideorlError):
        ledger.trained([first, IssuedQuestion(0, 2, question(2))], step=1)
    assert ledger.counts() == Counts(pending=2, issued=1)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["issue", "train", "drop", "next", "rewind", "reopen"]), max_size=40))
def test_whatever_happens_every_question_has_one_state(tmp_path_factory, happenings: list[str]) -> None:
    path = tmp_path_factory.mktemp("run") / "ledger.sqlite"
    ledger, flying, step = Ledger(path, ToyOrder(4), epochs=2), [], 1
    trained: dict[str, int] = {}
    for happening in happenings:
        if happening == "issue":
            flying += take(ledger, 1)
        elif happening == "train" and flying:
            trained[flying[0].key] = step
            ledger.trained([flying.pop(0)], step)
        elif happening == "drop" and flying:
            ledger.dropped(flying.pop(), DROP, step)
        elif happening == "next":
            step += 1
        elif happening == "rewind":
            step, flying = max(1, step - 1), []
            ledger.rewind(step)
            trained = {key: at for key, at in trained.items() if at <= step}
        elif happening == "reopen":
            ledger.close()
            ledger, flying = Ledger(path, ToyOrder(4), epochs=2), flying
        counts = ledger.counts()
        assert counts.pending + counts.issued + counts.trained + counts.dropped == 8
        assert (counts.issued, counts.trained) == (len(flying), len(trained))
    ledger.close()


def test_other_data_is_refused_by_its_size(tmp_path: Path) -> None:
    Ledger(tmp_path / "ledger.sqlite", ToyOrder(3), epochs=1).close()
    with pytest.raises(UserError, match="holds 3 questions, but the data now gives 1 x 4"):
        Ledger(tmp_path / "ledger.sqlite", ToyOrder(4), epochs=1)


def test_other_data_is_refused_by_its_questions(tmp_path: Path) -> None:
    class Shifted(ToyOrder):
        def question(self, index: int) -> Question:
            return question(index + 1)

    Ledger(tmp_path / "ledger.sqlite", ToyOrder(3), epochs=1).close()
    ledger = Ledger(tmp_path / "ledger.sqlite", Shifted(3), epochs=1)
    with pytest.raises(UserError, match="question 0 of epoch 0 was toy/0, but the data now gives toy/1"):
        ledger.issue()


def test_a_locked_ledger_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videorl.orchestration.ledger._LOCK_SECONDS", 0.01)
    ledger = Ledger(tmp_path / "ledger.sqlite", ToyOrder(3), epochs=1)
    other = sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(VideorlError, match=r"ledger\.sqlite: the ledger cannot be used: database is locked"):
        ledger.issue()
    other.close()
    assert take(ledger, 1)[0].position == 0


def test_a_disk_that_takes_no_more_is_told_in_one_line_and_loses_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite", ToyOrder(20), epochs=1)
    ledger.trained(take(ledger, 5), step=1)
    log = (tmp_path / "ledger.sqlite-wal").stat().st_size
    with no_file_beyond(log), pytest.raises(VideorlError, match=r"ledger\.sqlite: the ledger cannot be used: .*disk"):
        ledger.issue()
    assert ledger.counts() == Counts(pending=15, trained=5)
    assert take(ledger, 1)[0].position == 5


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """Every write of this process past `size` bytes fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_is_no_ledger_is_told_in_one_line(tmp_path: Path) -> None:
    shutil.copy(__file__, tmp_path / "ledger.sqlite")
    with pytest.raises(VideorlError, match="not a database"):
        Ledger(tmp_path / "ledger.sqlite", ToyOrder(3), epochs=1)
