import json
from pathlib import Path

import pytest

from builders_eval import prediction
from videorl.errors import UserError
from videorl.eval.markdown import render
from videorl.eval.report import Report, Share, build_report, report_benchmark
from videorl.eval.report_file import read_report, replace_file, write_report


def report_of(*columns: list, probes: dict | None = None) -> Report:
    benchmarks = {f"set{i}": report_benchmark(rows) for i, rows in enumerate(columns)}
    return build_report("model", "k" * 16, "w" * 64, {"prompt": "train", "temperature": 0.0}, benchmarks, probes or {})


def test_accuracy_is_over_all_rows_and_a_failed_row_is_wrong() -> None:
    rows = [prediction(i) for i in range(7)] + [prediction(i, error="video_broken: no picture") for i in range(7, 10)]
    column = report_benchmark(rows)
    assert (column.rows, column.correct, column.failed, column.accuracy) == (10, 7, 3, 0.7)
    assert column.failures == {"video_broken": 3}


def test_a_row_without_an_answer_is_wrong_and_not_failed() -> None:
    column = report_benchmark([prediction(0), prediction(1, None)])
    assert (column.accuracy, column.no_answer, column.failed, column.format_rate) == (0.5, 1, 0, 0.5)


def test_one_failed_row_makes_the_report_incomplete() -> None:
    assert report_of([prediction(0)]).complete
    assert not report_of([prediction(0)], [prediction(0, error="generation_failed: x")]).complete


def test_a_failed_row_of_a_probe_makes_the_report_incomplete() -> None:
    probe = {"blind": {"set0": report_benchmark([prediction(0, error="generation_failed: x")])}}
    assert not report_of([prediction(0)], probes=probe).complete


def test_the_macro_mean_weighs_a_small_benchmark_like_a_large_one() -> None:
    report = report_of([prediction(0)], [prediction(i, "A") for i in range(99)])
    assert report.macro_mean == 0.5


def test_categories_are_counted_by_value() -> None:
    column = report_benchmark([prediction(0), prediction(1, "A"), prediction(2)])
    assert column.by == {"kind": {"even": Share(2, 2), "odd": Share(1, 0)}}


def test_the_mean_length_is_over_the_rows_with_a_response() -> None:
    assert report_benchmark([prediction(0), prediction(2), prediction(9, error="x: y")]).mean_length == 11.0


def test_report_json_holds_the_contract_and_reads_back_equal(tmp_path: Path) -> None:
    report = report_of(
        [prediction(0), prediction(1, "A")], probes={"blind": {"set0": report_benchmark([prediction(0)])}}
    )
    write_report(report, tmp_path)
    tree = json.loads((tmp_path / "report.json").read_text())
    column = tree["benchmarks"]["set0"]
    contract = ("rows", "correct", "failed", "no_answer", "accuracy", "interval", "format_rate", "by")
    assert all(key in column for key in contract)
    assert column["interval"][0] < 0.5 < column["interval"][1]
    assert column["by"]["kind"]["odd"] == {"rows": 1, "correct": 0}
    assert tree["macro_mean"] == 0.5
    assert len(tree["macro_interval"]) == 2
    assert tree["complete"] is True
    assert read_report(tmp_path) == report


def test_markdown_says_that_a_report_is_incomplete_and_why() -> None:
    text = render(report_of([prediction(0), prediction(1, error="video_missing: /v/1.mp4: no such file")]))
    assert "incomplete" in text
    assert "video_missing 1" in text
    assert "/v/1.mp4: no such file" in text


def test_markdown_shows_probes_beside_the_plain_accuracy() -> None:
    probes = {"blind": {"set0": report_benchmark([prediction(0, "A"), prediction(1)])}}
    text = render(report_of([prediction(0), prediction(1)], probes=probes))
    assert "| plain | 1.0000 | 1.0000 |" in text
    assert "| blind | 0.5000 | 0.5000 |" in text


def test_a_missing_report_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no report there"):
        read_report(tmp_path)


@pytest.mark.parametrize("change", [{"benchmarks": []}, {"macro_mean": "much"}, {"macro_interval": [0]}, {"probes": 1}])
def test_a_report_whose_fields_are_of_other_types_is_one_line(change: dict[str, object], tmp_path: Path) -> None:
    write_report(report_of([prediction(0)]), tmp_path)
    tree = json.loads((tmp_path / "report.json").read_text())
    (tmp_path / "report.json").write_text(json.dumps(tree | change))
    with pytest.raises(UserError, match=f"not a report of videorl eval: {next(iter(change))}"):
        read_report(tmp_path)


def test_a_report_that_cannot_be_written_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "card.md").mkdir()
    with pytest.raises(UserError, match=r"card\.md: cannot be written"):
        replace_file(tmp_path / "card.md", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["card.md"]


def test_a_foreign_report_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text('{"rows": 3}')
    with pytest.raises(UserError, match="not a report of videorl eval"):
        read_report(tmp_path)
