"""Mistakes on the command line end with 2 and one line, before anything is started."""

import json
from pathlib import Path

import pytest

from builders_eval import prediction
from videorl.cli.main import run as videorl
from videorl.eval.predictions import PredictionFile
from videorl.eval.report import build_report, report_benchmark
from videorl.eval.report_file import write_report


def said(capsys: pytest.CaptureFixture[str]) -> str:
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("videorl: ")]
    return line


def test_a_model_and_an_output_folder_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert videorl(["eval"]) == 2
    assert "give MODEL and --out DIR, or --watch RUN" in said(capsys)


def test_a_model_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert videorl(["eval", str(tmp_path / "nothing"), "--out", str(tmp_path / "out")]) == 2
    assert "neither a Hugging Face model folder nor a run" in said(capsys)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no benchmark: give --benchmark NAME=PATH"),
        (["--benchmark", "rows.json"], "write NAME=PATH"),
        (["--benchmark", "a=missing.json"], "missing.json: no such file"),
        (["data.max_frams=4"], "did you mean data.max_frames?"),
        (["--benchmark", "a/b=rows.json"], "benchmark 'a/b': it stands in file names"),
        (["--every", "20"], "--every means nothing without --watch"),
        (["--subtitles", "--benchmark", "a=rows.json"], "--subtitles needs --media-root"),
        (["data.prompt=as-given", "--blind", "--benchmark", "a=rows.json"], "add --prompt direct"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert videorl(["eval", str(tmp_path / "model"), *arguments, "--out", str(tmp_path / "out")]) == 2
    assert message in said(capsys)


def test_what_a_watch_would_not_obey_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert videorl(["eval", "--watch", str(tmp_path), "--out", "o", "--config", "c"]) == 2
    assert "--out, --config means nothing with --watch" in said(capsys)


def evaluation(folder: Path, right: int, **settings: object) -> Path:
    rows = [prediction(i, "B" if i < right else "A") for i in range(10)]
    with PredictionFile(folder / "predictions.jsonl", "key") as file:
        for row in rows:
            file.append(row)
    write_report(build_report("m", "key", "w", settings, {"made": report_benchmark(rows)}, {}), folder)
    return folder


def test_compare_prints_one_document_and_names_settings_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = evaluation(tmp_path / "a", 4, prompt="train"), evaluation(tmp_path / "b", 7, prompt="direct")
    assert videorl(["compare", str(a), str(b), "--json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["macro_difference"] == pytest.approx(0.3)
    assert len(tree["flips"]) == tree["all_rows"]["won"] == 3
    assert tree["different_settings"] == {"prompt": ["train", "direct"]}
    assert videorl(["compare", str(a), str(b)]) == 0
    assert "Setting prompt differs: 'train' in A, 'direct' in B." in capsys.readouterr().out


def test_compare_without_a_report_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert videorl(["compare", str(tmp_path), str(tmp_path)]) == 2
    assert "no report there" in said(capsys)


def test_export_wants_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert videorl(["export", str(tmp_path), str(tmp_path / "out")]) == 2
    assert "not a run; give RUN, RUN@STEP or RUN@keeper" in said(capsys)


def test_compare_names_a_damaged_line_and_passes_over_one_that_was_cut_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = evaluation(tmp_path / "a", 4), evaluation(tmp_path / "b", 7)
    lines = (b / "predictions.jsonl").read_bytes()
    (b / "predictions.jsonl").write_bytes(lines[:-9])
    assert videorl(["compare", str(a), str(b)]) == 0
    (b / "predictions.jsonl").write_bytes(lines.replace(b'"benchmark": "made"', b'"benchmark": ["made"]', 1))
    assert videorl(["compare", str(a), str(b)]) == 2
    assert "predictions.jsonl:1: not a prediction" in said(capsys)


def test_weights_that_were_cut_off_are_named_before_an_engine_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(bytes(100))
    row = {"problem": "What?", "options": ["A. x", "B. y"], "solution": "A", "path": "v.mp4"}
    (tmp_path / "rows.json").write_text(json.dumps([row]))
    benchmark = f"made={tmp_path / 'rows.json'}"
    assert videorl(["eval", str(model), "--out", str(tmp_path / "out"), "--benchmark", benchmark]) == 1
    assert "model.safetensors: cannot be read: " in said(capsys)
