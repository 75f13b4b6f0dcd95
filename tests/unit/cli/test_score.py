"""videorl score: lines in, the same lines with their worth out."""

from __future__ import annotations

import json
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
