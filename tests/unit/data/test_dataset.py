"""The order of questions, and what becomes of rows on the way into a run."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders_rows import rows_by_format, write_rows
from videorl.config.schema import DataConfig
from videorl.data.dataset import Dataset, load_dataset
from videorl.errors import UserError
from videorl.types import Media, Question


def questions(count: int) -> Iterator[Question]:
    for i in range(count):
        media = (Media("video", f"/videos/{i}.mp4", start=1.0, limits={"fps": 2.0}, frames=("a", "b")),)
        yield Question(
            f"s/{i}", "multiple_choice", f"Wo ist Nr. {i}? 🚗", ("hier", "dort"), i % 2, media, "s", {"k": "v"}
        )


def test_questions_come_back_as_they_went_in() -> None:
    dataset = Dataset(questions(5), shuffle=False)
    assert [dataset.issued(0, i).question for i in range(5)] == list(questions(5))


def test_every_epoch_asks_every_question_once_in_an_order_of_its_own() -> None:
    dataset = Dataset(questions(200), seed=3)
    orders = [dataset.order(epoch).tolist() for epoch in range(3)]
    assert all(sorted(order) == list(range(200)) for order in orders)
    assert orders[0] != orders[1] != orders[2]


def test_the_order_depends_on_seed_and_epoch_only() -> None:
    one, two = Dataset(questions(50), seed=3), Dataset(questions(50), seed=3)
    one.order(0)
    assert one.order(4).tolist() == two.order(4).tolist()
    assert two.order(4).tolist() != Dataset(questions(50), seed=4).order(4).tolist()
    # Pinned: a resumed run must not change its order with a library's version.
    assert Dataset(questions(8), seed=0).order(0).tolist() == [3, 2, 1, 6, 0, 7, 4, 5]


def test_without_shuffling_the_order_is_the_files() -> None:
    assert Dataset(questions(5), shuffle=False).order(1).tolist() == [0, 1, 2, 3, 4]


def test_an_issued_question_names_its_epoch_and_position() -> None:
    dataset = Dataset(questions(10), seed=1)
    issued = dataset.issued(2, 7)
    assert (issued.epoch, issued.position) == (2, 7)
    assert issued.question.id == f"s/{dataset.order(2)[7]}"


def test_many_questions_take_little_more_memory_than_their_text() -> None:
    tracemalloc.start()
    dataset = Dataset(questions(5_000))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(dataset) == 5_000
    assert held / 5_000 < 700


def config(*files: Path, **settings: object) -> DataConfig:
    return DataConfig(train=files, **settings)  # type: ignore[arg-type]


def test_a_run_reads_all_its_files_and_reports_each(tmp_path: Path) -> None:
    rows = rows_by_format()
    bad = rows["video-r1"] | {"solution": "<answer>Z</answer>"}
    one = write_rows(tmp_path / "one.json", [rows["video-r1"], bad])
    two = write_rows(tmp_path / "two.parquet", [rows["verl"]])
    dataset, (first, second) = load_dataset(config(one, two), seed=0)
    assert len(dataset) == 2
    assert (first.path, first.format, first.read, first.kept) == (one, "video-r1", 2, 1)
    assert dict(first.dropped) == {"answer_unresolved": 1}
    assert "row 2" in first.examples["answer_unresolved"][0]
    assert (second.format, second.kept) == ("verl", 1)


def test_the_same_row_twice_is_a_duplicate_and_the_same_id_twice_is_not(tmp_path: Path) -> None:
    row = rows_by_format()["video-r1"]
    file = write_rows(tmp_path / "rows.json", [row, row, row | {"problem": "Another question"}])
    dataset, (report,) = load_dataset(config(file, shuffle=False), seed=0)
    assert [dataset.question(i).id for i in range(2)] == ["rows/3", "rows/3#2"]
    assert dict(report.dropped) == {"duplicate": 1}
    assert report.read == report.kept + 1 == 3


def test_data_without_a_usable_question_is_the_users_fault(tmp_path: Path) -> None:
    row = rows_by_format()["video-r1"] | {"solution": "?"}
    with pytest.raises(UserError, match=r"no question is left.*row 1.*names none"):
        load_dataset(config(write_rows(tmp_path / "rows.json", [row])), seed=0)
