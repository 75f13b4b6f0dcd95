"""Rows that no reader can turn into values are dropped with a reason, and a file of them is named in one line."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from videorl.data.questions import read_questions
from videorl.data.rows import read_rows
from videorl.errors import UserError
from videorl.types import Drop, DropReason, Question

GOOD = {"problem": "What?", "options": ["x", "y"], "solution": "A", "path": "a.mp4"}
GOOD |= {"data_type": "video", "problem_type": "multiple choice"}
DEEP = "[" * 100_000


@pytest.mark.parametrize("line", [DEEP, '{"problem": ' + "9" * 5_000 + "}"])
def test_a_line_that_json_cannot_hold_is_dropped_and_the_next_one_is_read(line: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f"{line}\n{json.dumps(GOOD)}\n")
    dropped, kept = read_rows(file)
    assert isinstance(dropped, Drop)
    assert dropped.reason is DropReason.ROW_INVALID
    assert kept == GOOD


def test_a_json_file_that_json_cannot_hold_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text('[{"problem": ' + "9" * 5_000 + "}]")
    with pytest.raises(UserError, match=r"rows\.json: not readable JSON"):
        list(read_rows(file))


def test_nulls_before_the_rows_of_an_array_do_not_hide_them(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([None, None, GOOD]))
    first, second, third = read_rows(file)
    assert isinstance(first, Drop)
    assert isinstance(second, Drop)
    assert third == GOOD


def test_a_parquet_value_that_python_cannot_hold_is_named_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"duration": pa.array([123], pa.timestamp("ns"))}), file)
    with pytest.raises(UserError, match=r"rows\.parquet: cannot be read"):
        list(read_rows(file))


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl", "rows.csv"])
def test_a_file_without_rows_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(UserError, match=f"{name}: holds no rows"):
        list(read_questions([tmp_path / name]))


def test_cells_and_paths_that_nothing_can_hold_drop_their_row_alone(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [GOOD, GOOD | {"options": DEEP}, GOOD | {"path": "\ud800.mp4"}, GOOD | {"solution": float("nan")}, GOOD]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    kept = [isinstance(row.outcome, Question) for row in read_questions([file])]
    assert kept == [True, False, False, False, True]


def test_a_folder_in_place_of_a_file_is_told_with_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a folder without question files \(.csv, .*\); name a file$"):
        list(read_questions([tmp_path]))
    (tmp_path / "rows.parquet").touch()
    (tmp_path / "video.mp4").touch()
    with pytest.raises(UserError) as caught:
        list(read_questions([tmp_path]))
    assert str(caught.value) == f"{tmp_path}: a folder, not a file; name its files: '{tmp_path}/*.parquet'"


def test_perception_tests_own_object_of_videos_gives_each_question_with_its_video(tmp_path: Path) -> None:
    asked = {"question": "How many?", "options": ["one", "two", "three"], "area": "physics"}
    videos = {
        "video_1": {
            "metadata": {"video_id": "video_1"},
            "mc_question": [asked | {"id": 0, "answer_id": 2}, asked | {"id": 1}],
        },
        "video_2": {"metadata": {"video_id": "video_2"}, "mc_question": []},
        "video_3": {"metadata": {"video_id": "video_3"}, "mc_question": [asked | {"id": 0, "answer_id": 0}]},
    }
    (tmp_path / "mc_question_train.json").write_text(json.dumps(videos))
    first, unanswered, last = read_questions([tmp_path / "mc_question_train.json"])
    assert first.format == "perception-test"
    assert isinstance(first.outcome, Question)
    assert first.outcome.id == "mc_question_train/video_1/0"
    assert (first.outcome.answer, first.outcome.options) == (2, ("one", "two", "three"))
    assert first.outcome.media[0].path == str(tmp_path / "video_1.mp4")
    assert isinstance(unanswered.outcome, Drop)
    assert "answer_id is missing" in unanswered.outcome.detail
    assert isinstance(last.outcome, Question)
    assert last.outcome.media[0].path == str(tmp_path / "video_3.mp4")


def test_two_values_under_one_key_are_not_settled_in_silence(tmp_path: Path) -> None:
    twice = json.dumps(GOOD)[:-1] + ', "solution": "B"}'
    (tmp_path / "rows.jsonl").write_text(f"{twice}\n{json.dumps(GOOD)}\n")
    dropped, kept = read_rows(tmp_path / "rows.jsonl")
    assert isinstance(dropped, Drop)
    assert dropped.detail == "not readable JSON: the key 'solution' stands twice in an object"
    assert kept == GOOD
    (tmp_path / "rows.json").write_text(f'{{"a": {json.dumps(GOOD)}, "a": {json.dumps(GOOD)}}}')
    with pytest.raises(UserError, match=r"rows\.json: not readable JSON: the key 'a' stands twice"):
        list(read_rows(tmp_path / "rows.json"))


def test_two_columns_of_one_name_are_not_settled_in_silence(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("question,answer,answer\nWhat?,1,2\n")
    pq.write_table(pa.table([["What?"], ["1"], ["2"]], names=["question", "answer", "answer"]), tmp_path / "r.parquet")
    for name in ("rows.csv", "r.parquet"):
        with pytest.raises(UserError, match=f"{name}: has more than one column 'answer'"):
            list(read_rows(tmp_path / name))


def test_a_cell_of_a_million_characters_is_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("question,answer\n" + "q" * 1_000_000 + ",1\n")
    (row,) = read_rows(tmp_path / "rows.csv")
    assert isinstance(row, dict)
    assert len(row["question"]) == 1_000_000
