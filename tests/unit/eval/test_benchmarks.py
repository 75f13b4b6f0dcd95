import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from builders_eval import question
from videorl.errors import UserError
from videorl.eval.benchmarks import find_subtitles, load_benchmark, parse_benchmarks

REAL = Path(os.environ.get("VIDEORL_REAL_DATA", "absent"))  # annotation files as published; not part of the repository


def perceptioncomp_row(number: int, **changes: object) -> dict[str, object]:
    choices = {f"answer_choice_{i}": f"choice {i}" for i in range(5)}
    row = {"key": str(number), "video_id": f"clip_{number}", "question": f"Question {number}?", "answer_id": number % 5}
    return {**row, **choices, "answer": "?", "category": "sport", "difficulty": 1, **changes}


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text(json.dumps(rows))
    return path


def test_perceptioncomp_leaves_out_repeats_and_six_options_and_says_so(tmp_path: Path) -> None:
    rows = [perceptioncomp_row(n) for n in range(6)]
    rows.append(perceptioncomp_row(6, question="Question 2?", video_id="clip_2", answer_id=2))
    rows.append(perceptioncomp_row(7, answer_choice_5="one too many"))
    path = write(tmp_path / "p.json", rows)
    filtered = load_benchmark("p", path)
    assert filtered.rows == 6
    assert filtered.filters[0].startswith("6 of 8 rows: 1 repeat an earlier row, 1 with more than five options")
    assert load_benchmark("p", path, all_rows=True).rows == 8


def test_a_row_that_cannot_be_read_stays_in_the_denominator(tmp_path: Path) -> None:
    rows = [perceptioncomp_row(0), perceptioncomp_row(1, answer_id=9)]
    benchmark = load_benchmark("p", write(tmp_path / "p.json", rows))
    assert benchmark.rows == 2
    assert [row.id for row in benchmark.unreadable] == ["p/row 2"]
    assert benchmark.unreadable[0].error.startswith("answer_unresolved")


def test_rows_of_another_kind_are_left_out_by_name(tmp_path: Path) -> None:
    choice = {"problem": "What?", "options": ["A. x", "B. y"], "solution": "<answer>A</answer>", "path": "./v.mp4"}
    rows = [{**choice, "problem_type": "multiple choice"}, {**choice, "problem_type": "free-form"}]
    benchmark = load_benchmark("v", write(tmp_path / "v.json", rows))
    assert (benchmark.rows, benchmark.format) == (1, "video-r1")
    assert benchmark.filters == ("1 rows left out: not_multiple_choice",)


def test_an_id_that_several_rows_share_is_numbered(tmp_path: Path) -> None:
    rows = [perceptioncomp_row(0), perceptioncomp_row(0, question="Another?"), perceptioncomp_row(1)]
    ids = [q.id for q in load_benchmark("p", write(tmp_path / "p.json", rows)).questions]
    assert ids == ["p/0", "p/0#2", "p/1"]


@pytest.mark.parametrize("folder", ["", "videos", "data", "Benchmark/videos", "p/videos"])
def test_videos_are_found_where_a_project_puts_them(tmp_path: Path, folder: str) -> None:
    (tmp_path / "root" / folder).mkdir(parents=True)
    (tmp_path / "root" / folder / "clip_0.mp4").touch()
    path = write(tmp_path / "p.json", [perceptioncomp_row(0)])
    found = load_benchmark("p", path, media_root=tmp_path / "root").questions[0].media[0].path
    assert found == str(tmp_path / "root" / folder / "clip_0.mp4")


def test_a_pattern_stands_for_several_files(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path / f"part-{number}.json", [perceptioncomp_row(number)])
    assert load_benchmark("p", tmp_path / "part-*.json").rows == 3


def test_pairs_are_name_and_path() -> None:
    assert parse_benchmarks(["a=x.json", "b=dir/y=z.json"]) == {"a": Path("x.json"), "b": Path("dir/y=z.json")}
    for wrong in (["x.json"], ["a="], ["=x"], ["a=x", "a=y"]):
        with pytest.raises(UserError, match="--benchmark"):
            parse_benchmarks(wrong)


def test_a_file_without_a_row_to_ask_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no rows"):
        load_benchmark("p", write(tmp_path / "p.json", []))


def test_subtitles_are_found_by_the_name_of_the_video(tmp_path: Path) -> None:
    (tmp_path / "subtitle").mkdir()
    (tmp_path / "subtitle" / "abc.srt").touch()
    assert find_subtitles(question(video="/videos/abc.mp4"), tmp_path) == tmp_path / "subtitle" / "abc.srt"
    assert find_subtitles(question(video="/videos/xyz.mp4"), tmp_path) is None
    assert find_subtitles(replace(question(), media=()), tmp_path) is None


@pytest.mark.skipif(not REAL.is_dir(), reason="VIDEORL_REAL_DATA does not name a folder of published annotations")
def test_the_published_files_have_the_right_counts() -> None:
    path = REAL / "perceptioncomp" / "1-1114.json"
    assert (load_benchmark("p", path).rows, load_benchmark("p", path, all_rows=True).rows) == (1108, 1114)
    holmes = load_benchmark("h", REAL / "video-holmes" / "*.json")
    assert (holmes.rows, holmes.format, holmes.unreadable) == (16, "video-holmes", ())


def test_a_video_whose_name_no_file_can_have_fails_its_row_only(tmp_path: Path) -> None:
    rows = [perceptioncomp_row(0, video_id="x" * 300), perceptioncomp_row(1)]
    assert load_benchmark("p", write(tmp_path / "p.json", rows)).rows == 2


@pytest.mark.parametrize("name", ["../up", "x" * 200, ""])
def test_a_name_that_would_not_do_in_a_file_name_is_refused_wherever_it_comes_from(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="stands in file names"):
        load_benchmark(name, write(tmp_path / "p.json", [perceptioncomp_row(0)]))
