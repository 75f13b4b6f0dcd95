"""Rows of every format become the same Question; what cannot be resolved says where and why."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders_rows import LINES, OPTIONS, TEXT, Row, rows_by_format, write_rows
from videorl.data.adapters import ADAPTERS
from videorl.data.adapters.normalised import normalised_row
from videorl.data.questions import ReadRow, read_questions
from videorl.errors import UserError
from videorl.types import Drop, DropReason, Media, Question

FORMATS = rows_by_format()


def read(path: Path, **how: Any) -> list[ReadRow]:
    return list(read_questions([path], **how))


def read_one(tmp_path: Path, row: Row, name: str = "rows.json", **how: Any) -> Question | Drop:
    (only,) = read(write_rows(tmp_path / name, [row]), **how)
    return only.outcome


def question(tmp_path: Path, row: Row, **how: Any) -> Question:
    outcome = read_one(tmp_path, row, **how)
    assert isinstance(outcome, Question), outcome
    return outcome


def drop(tmp_path: Path, row: Row, **how: Any) -> Drop:
    outcome = read_one(tmp_path, row, **how)
    assert isinstance(outcome, Drop), outcome
    return outcome


@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".parquet", ".csv"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_in_every_kind_of_file_gives_the_same_question(tmp_path: Path, name: str, suffix: str) -> None:
    (row,) = read(write_rows(tmp_path / f"rows{suffix}", [FORMATS[name]]))
    assert row.format == name.split(" ")[0]
    q = row.outcome
    assert isinstance(q, Question), q
    assert q.text == TEXT
    assert q.options[:3] == OPTIONS
    assert q.answer == 1
    (media,) = q.media
    assert media.kind == "video"
    assert media.path == str(tmp_path / ("car.mp4" if "clips" not in json.dumps(FORMATS[name]) else "clips/car.mp4"))
    assert (media.start, media.end) == ((2.5, 7.0) if name == "star" else (None, None))
    assert dict(media.limits) == ({"fps": 2.0} if name == "verl" else {})


def test_the_same_rows_as_parquet_json_lines_and_csv_are_equal_questions(tmp_path: Path) -> None:
    for name, row in FORMATS.items():
        rows = [row, {**row}]
        files = [write_rows(tmp_path / f"rows{suffix}", rows) for suffix in (".json", ".jsonl", ".parquet", ".csv")]
        first, *others = [[r.outcome for r in read(file)] for file in files]
        assert all(isinstance(outcome, Question) for outcome in first), name
        assert all(other == first for other in others), name


def test_files_with_different_columns_are_read_in_one_run(tmp_path: Path) -> None:
    for i, row in enumerate(FORMATS.values()):
        write_rows(tmp_path / f"{i:02}.parquet", [row])
    rows = list(read_questions([tmp_path / "*.parquet"]))
    assert [row.format for row in rows] == [name.split(" ")[0] for name in FORMATS]
    assert all(isinstance(row.outcome, Question) for row in rows)


def test_no_two_formats_claim_the_same_row() -> None:
    for name, row in FORMATS.items():
        claims = [adapter.name for adapter in ADAPTERS if adapter.recognises(frozenset(row))]
        assert claims[0] == name.split(" ")[0], claims


# ── what stands around the question ─────────────────────────────────────────────────────────────────────────────────


def test_ids_and_categories_are_the_rows_own(tmp_path: Path) -> None:
    mme = question(tmp_path, FORMATS["video-mme"], name="mme.json")
    assert mme.id == "mme/001-1"
    assert dict(mme.categories)["task_type"] == "Counting Problem"
    assert question(tmp_path, FORMATS["video-holmes"], name="vh.json").id == "vh/car/3"
    assert question(tmp_path, FORMATS["verl"]).id == "cars/7"
    assert question(tmp_path, FORMATS["easyr1"], name="e.json").id == "e/1"


def test_the_rows_own_prompt_is_kept_verbatim(tmp_path: Path) -> None:
    given = question(tmp_path, FORMATS["verl"]).given_prompt
    assert given == FORMATS["verl"]["prompt"][0]["content"]
    assert question(tmp_path, FORMATS["video-r1"]).given_prompt is None


def test_videos_may_be_a_mapping_a_path_a_frame_list_or_null(tmp_path: Path) -> None:
    row = FORMATS["verl"]
    assert question(tmp_path, row | {"videos": ["file:///data/a%20b.mp4"]}).media[0].path == "/data/a b.mp4"
    frames = question(tmp_path, row | {"videos": [["f/1.jpg", "f/2.jpg"]]}).media[0]
    assert frames == Media("video", str(tmp_path / "f"), frames=(str(tmp_path / "f/1.jpg"), str(tmp_path / "f/2.jpg")))
    without = row | {"videos": None, "prompt": [{"role": "user", "content": f"{TEXT}\n{LINES}"}]}
    assert question(tmp_path, without).media == ()
    two = row | {
        "videos": ["a.mp4", "b.mp4"],
        "prompt": [{"role": "user", "content": f"<video><video>{TEXT}\n{LINES}"}],
    }
    assert [m.path for m in question(tmp_path, two).media] == [str(tmp_path / "a.mp4"), str(tmp_path / "b.mp4")]


def test_fewer_placeholders_than_videos_are_a_row_error(tmp_path: Path) -> None:
    dropped = drop(tmp_path, FORMATS["verl"] | {"videos": ["a.mp4", "b.mp4"]})
    assert dropped.reason is DropReason.ROW_INVALID
    assert "2 media, but 1 <video>" in dropped.detail


def test_images_are_media_too(tmp_path: Path) -> None:
    row = FORMATS["video-r1"] | {"data_type": "image", "path": "a.png"}
    assert question(tmp_path, row).media == (Media("image", str(tmp_path / "a.png")),)


@pytest.mark.parametrize("kind", ["numerical", "free-form", "OCR", "regression"])
def test_rows_that_are_no_multiple_choice_are_dropped_as_that(tmp_path: Path, kind: str) -> None:
    assert drop(tmp_path, FORMATS["video-r1"] | {"problem_type": kind}).reason is DropReason.NOT_MULTIPLE_CHOICE


def test_open_conversations_are_no_multiple_choice(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "<image>\nDescribe it."}, {"from": "gpt", "value": "A car."}]
    dropped = drop(tmp_path, FORMATS["llava-video"] | {"conversations": turns})
    assert dropped.reason is DropReason.NOT_MULTIPLE_CHOICE


def test_a_normalised_row_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    written = [
        question(
            tmp_path, FORMATS["star"] | {"choices": [{"choice": "A. red"}, {"choice": "B. up"}], "answer": "B. up"}
        ),
        question(tmp_path, FORMATS["verl"] | {"videos": [["f/1.jpg", "f/2.jpg"]]}),
        question(tmp_path, FORMATS["video-mme"]),
    ]
    file = write_rows(tmp_path / "normalised.parquet", [dict(normalised_row(q)) for q in written])
    assert [row.outcome for row in read(file)] == written


# ── literal text ────────────────────────────────────────────────────────────────────────────────────────────────────

LITERAL = "the `<video>` tag, <|video_pad|> or <image>"


@pytest.mark.parametrize("name", FORMATS)
def test_placeholders_inside_questions_and_options_stay_text(tmp_path: Path, name: str) -> None:
    text = json.dumps(FORMATS[name]).replace("red car", LITERAL).replace(TEXT, f"Which is {LITERAL}?")
    q = question(tmp_path, json.loads(text))
    assert q.options[1] == LITERAL
    assert q.text == f"Which is {LITERAL}?"
    assert q.answer == 1
    assert len(q.media) == 1


def test_unicode_and_line_ends_survive(tmp_path: Path) -> None:
    row = FORMATS["perceptioncomp"] | {"question": "①右から？\n②Größe «x»", "answer_choice_1": "赤い車 🚗"}
    for suffix in (".json", ".parquet", ".csv"):
        q = question(tmp_path, row, name=f"u{suffix}")
        assert q.text == row["question"]
        assert q.options[1] == "赤い車 🚗"


# ── what is wrong with a row ────────────────────────────────────────────────────────────────────────────────────────


def test_an_answer_that_names_no_option_says_file_row_and_reason(tmp_path: Path) -> None:
    dropped = drop(tmp_path, FORMATS["video-r1"] | {"solution": "<answer>F</answer>"})
    assert dropped.reason is DropReason.ANSWER_UNRESOLVED
    assert f"{tmp_path / 'rows.json'}, row 1" in dropped.detail
    assert "a letter up to C" in dropped.detail


def test_a_text_without_options_is_dropped_as_that(tmp_path: Path) -> None:
    dropped = drop(tmp_path, FORMATS["easyr1"] | {"problem": "<video>What colour?"})
    assert dropped.reason is DropReason.OPTIONS_NOT_FOUND


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("next-qa", {"question": None}),
        ("next-qa", {"answer": "many"}),
        ("star", {"start": 9.0}),
        ("verl", {"prompt": []}),
        ("verl", {"videos": [17]}),
        ("verl", {"videos": ["https://example.com/v.mp4"]}),
        ("verl", {"videos": ["../../etc/passwd"]}),
        ("video-mme", {"videoID": "../car"}),
    ],
)
def test_unusable_fields_are_row_errors(tmp_path: Path, name: str, change: Row) -> None:
    assert drop(tmp_path, FORMATS[name] | change).reason is DropReason.ROW_INVALID


def test_one_bad_row_leaves_the_others(tmp_path: Path) -> None:
    good = FORMATS["video-r1"]
    lines = [json.dumps(good), "{not json", json.dumps([1, 2]), json.dumps({"problem": "?"}), json.dumps(good)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    outcomes = [row.outcome for row in read(tmp_path / "rows.jsonl")]
    assert [isinstance(o, Question) for o in outcomes] == [True, False, False, False, True]
    assert all(o.reason is DropReason.ROW_INVALID for o in outcomes if isinstance(o, Drop))


# ── files and paths ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_paths_are_remapped_and_start_at_the_media_root(tmp_path: Path) -> None:
    row = FORMATS["verl"]
    assert question(tmp_path, row, media_root=Path("/videos")).media[0].path == "/videos/clips/car.mp4"
    old = row | {"videos": ["/old/root/a.mp4"]}
    assert question(tmp_path, old, remap={"/old/root": "/new", "/old": "/wrong"}).media[0].path == "/new/a.mp4"
    assert question(tmp_path, old, remap={"/old/ro": "/wrong"}).media[0].path == "/old/root/a.mp4"


def test_a_name_with_a_split_finds_the_splits_files(tmp_path: Path) -> None:
    write_rows(tmp_path / "train-00000.parquet", [FORMATS["easyr1"]])
    write_rows(tmp_path / "test-00000.parquet", [FORMATS["easyr1"]])
    (row,) = read(Path(f"{tmp_path}@train"))
    assert row.path.name == "train-00000.parquet"
    (row,) = read(Path(f"{tmp_path}/test-00000.parquet@test"))
    assert row.path.name == "test-00000.parquet"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.json", None, "no such file"),
        ("*.json", None, "no file matches"),
        ("rows.txt", "", "unknown file type"),
        ("rows.json", '[{"problem": 1}', "not closed"),
        ("rows.json", "[{]", "not valid JSON"),
        ("rows.parquet", "text", "cannot be read"),
        ("rows.json", '[{"what": "?"}]', "no known format has the fields what"),
    ],
)
def test_files_that_cannot_be_read_are_the_users_fault(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path / name)


def test_a_format_can_be_named(tmp_path: Path) -> None:
    assert isinstance(question(tmp_path, FORMATS["easyr1"] | {"solution": "x"}, format="easyr1"), Question)
    with pytest.raises(UserError, match="known are videorl, verl"):
        read(write_rows(tmp_path / "rows.json", [FORMATS["verl"]]), format="verlx")


def test_numpy_values_are_plain_values_to_an_adapter() -> None:
    from videorl.data.fields import as_list, as_mapping, as_number

    nested = np.array([{"choice_id": np.int64(0), "choice": "x"}, None], dtype=object)
    assert as_list(nested) == [{"choice_id": 0, "choice": "x"}, None]
    assert as_mapping({"a": np.float32(1.5), "b": None}) == {"a": 1.5}
    assert as_number(np.int64(3)) == 3.0


# ── the real files, where they are ──────────────────────────────────────────────────────────────────────────────────

EXAMPLES = Path(os.environ.get("VIDEORL_EXAMPLES", "/nonexistent"))
with_examples = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="VIDEORL_EXAMPLES names no folder")


@with_examples
def test_all_rows_of_perceptioncomp_resolve_to_the_option_that_answer_id_names() -> None:
    (file,) = EXAMPLES.glob("perceptioncomp/*.json")
    raw = json.loads(file.read_text())
    rows = read(file)
    assert len(rows) == 1114
    for row, written in zip(rows, raw, strict=True):
        assert isinstance(row.outcome, Question)
        assert row.outcome.options[row.outcome.answer] == written[f"answer_choice_{written['answer_id']}"].strip()
    texts = [row.outcome.options[row.outcome.answer] for row in rows if isinstance(row.outcome, Question)]
    assert sum(text != written["answer"].strip() for text, written in zip(texts, raw, strict=True)) == 10
    assert Counter(len(row.outcome.options) for row in rows if isinstance(row.outcome, Question)) == {5: 1113, 6: 1}


@with_examples
def test_video_holmes_resolves() -> None:
    for file in EXAMPLES.glob("video-holmes/*.json"):
        for row, written in zip(read(file), json.loads(file.read_text()), strict=True):
            assert isinstance(row.outcome, Question)
            assert "ABCDEF"[row.outcome.answer] == written["Answer"]
