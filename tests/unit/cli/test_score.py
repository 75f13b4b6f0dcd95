"""videorl score: lines in, the same lines with their worth out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from builders_rewards import T
from videorl.cli.main import run

OPTIONS = ["A. blue car", "B. red car", "C. bus"]


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_each_line_comes_out_with_choice_accuracy_format_and_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(
        tmp_path / "in.jsonl",
        {"response": T + "B", "options": OPTIONS, "answer": "B", "id": 7},
        {"response": T + "red car", "options": {"A": "blue car", "B": "red car"}, "answer": 1},
        "",
        {"response": "", "options": OPTIONS, "answer": "bus"},
        {"response": T.removeprefix("<think>") + "c", "options": OPTIONS, "answer": "bus", "thinks": True},
    )
    assert run(["score", str(file)]) == 0
    scored = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(s["choice"], s["accuracy"], s["format"], s["score"]) for s in scored] == [
        ("B", 1.0, 1.0, 1.0),
        ("B", 1.0, 0.0, 0.8),
        (None, 0.0, 0.0, 0.0),
        ("C", 1.0, 1.0, 1.0),
    ]
    assert scored[0]["id"] == 7


def test_vero_and_a_file_of_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "in.jsonl", {"response": T + "<answer>B</answer>", "options": OPTIONS, "answer": "B"})
    out = tmp_path / "out.jsonl"
    assert run(["score", str(file), "--profile", "vero", "--out", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(out.read_text())["score"] == 0.9


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{not json", "not valid JSON"),
        ("[]", "holds list, not an object"),
        ({"response": "B", "options": OPTIONS}, "answer is missing"),
        ({"response": None, "options": OPTIONS, "answer": "B"}, "response is NoneType, not a string"),
        ({"response": "B", "options": ["only one"], "answer": "A"}, "options"),
        ({"response": "B", "options": OPTIONS, "answer": "F"}, "names none of the 3 options"),
        ({"response": "B", "options": OPTIONS, "answer": "B", "thinks": "yes"}, "thinks is 'yes'"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(
    line: object, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "in.jsonl", {"response": "B", "options": OPTIONS, "answer": "B"}, line)
    out = tmp_path / "out.jsonl"
    assert run(["score", str(file), "--out", str(out)]) == 2
    said_all = capsys.readouterr().err
    assert f"{file}:2: " in said_all
    assert said in said_all
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"response": "B", "options": ["a", "b"], "answer": NaN}', '{"answer": 0, "answer": 1}']
)
def test_what_is_no_json_is_named_by_file_and_number(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(line + "\n")
    assert run(["score", str(file)]) == 2
    assert f"{file}:1: not valid JSON" in capsys.readouterr().err


def test_half_a_surrogate_pair_comes_out_as_it_came_in(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    file = write(tmp_path / "in.jsonl", {"response": "\ud800", "options": OPTIONS, "answer": "B"})
    assert run(["score", str(file), "--out", str(out)]) == 0
    assert json.loads(out.read_text(encoding="utf-8"))["response"] == "\ud800"


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "in.jsonl", {"response": "B", "options": OPTIONS, "answer": "B"})
    assert run(["score", str(file), "--out", str(file / "out.jsonl")]) == 2
    assert "cannot be written: Not a directory" in capsys.readouterr().err


def test_what_is_no_regular_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    file = write(tmp_path / "in.jsonl", {"response": "B", "options": OPTIONS, "answer": "B"})
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(["score", str(file), "--out", str(pipe)]) == 0
        assert pipe.is_fifo()
        assert json.loads(os.read(reader, 65_536))["choice"] == "B"
    finally:
        os.close(reader)
