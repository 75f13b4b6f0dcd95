"""What the check counts, on files whose content is known."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders_data import even_times, write_clip
from builders_rows import rows_by_format, write_rows
from videorl.data.check import Check, Opened, check_questions
from videorl.data.pool import DecoderPool
from videorl.data.prompt import PromptBuilder
from videorl.data.questions import ReadRow, read_questions
from videorl.data.report import check_document, draw_check, show_check
from videorl.data.seen import _TABLES
from videorl.data.store import FrameStore
from videorl.data.templates import letter
from videorl.errors import UserError, VideorlError
from videorl.playground.tiny_model import make_tiny_model
from videorl.types import FrameSampling, Media, Question

ROW = rows_by_format()["video-r1"]
SAMPLING = FrameSampling(fps=2.0, max_frames=6, max_pixels=8192)


@pytest.fixture(scope="module")
def pool() -> Iterator[DecoderPool]:
    pool = DecoderPool(2, timeout=60.0)
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five questions: two about a good clip, one about a short one, one about a broken file, one about none."""
    folder = tmp_path_factory.mktemp("check")
    write_clip(folder / "good.mp4", even_times(60, 10))
    write_clip(folder / "short.mp4", even_times(8, 10))
    (folder / "broken.mp4").write_bytes(b"no video")
    paths = ["good.mp4", "./good.mp4", "short.mp4", "broken.mp4", "none.mp4"]
    rows = [ROW | {"problem_id": i, "path": path} for i, path in enumerate(paths)]
    rows.append(ROW | {"problem_id": 9, "solution": "<answer>Q</answer>"})
    write_rows(folder / "rows.json", rows)
    make_tiny_model(folder / "model", seed=0)
    return folder


def check(folder: Path, **how: object) -> Check:
    return check_questions(read_questions([folder / "rows.json"]), SAMPLING, **how)  # type: ignore[arg-type]


def test_rows_missing_videos_repeats_and_positions_are_counted_without_opening_anything(folder: Path) -> None:
    document = check_document(check(folder), max_prompt_tokens=100)
    (file,) = document["files"]
    assert (file["path"], file["format"]) == (str(folder / "rows.json"), "video-r1")
    assert document["totals"] == {"read": 6, "kept": 5, "dropped": {"answer_unresolved": 1}}
    assert "row 6" in file["examples"]["answer_unresolved"][0]
    assert document["media"]["distinct"] == 4
    assert document["media"]["problems"] == {"video_missing": 1}
    assert document["media"]["rows_without"] == 1
    assert document["repeated"] == 1
    assert document["positions"] == {"3": {"B": 5}}
    assert document["prompt_tokens"] is None
    assert document["frames"] is None


def test_opening_videos_finds_the_broken_ones_and_counts_frames(folder: Path, pool: DecoderPool) -> None:
    steps: list[tuple[int, int]] = []
    opened = Opened(pool.probe, 2, lambda done, total: steps.append((done, total)))
    result = check(folder, opened=opened)
    assert dict(result.media.problems) == {"video_missing": 1, "video_broken": 1}
    assert result.media.rows_without == 2
    assert sorted(result.frames) == [2, 6]
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_prompt_lengths_are_those_of_the_prompts(folder: Path, pool: DecoderPool, tmp_path: Path) -> None:
    lengths = PromptBuilder(folder / "model", letter, 10_000)
    result = check(folder, lengths=lengths, opened=Opened(pool.probe, 2, lambda *_: None))
    store = FrameStore(tmp_path / "store", SAMPLING, pool)
    for row, counted in zip(read_questions([folder / "rows.json"]), result.prompt_tokens[:3], strict=False):
        assert isinstance(row.outcome, Question)
        ref = store.reference(row.outcome.media[0])
        assert counted == len(lengths.build(row.outcome, [(ref, store.load(ref))]).token_ids)


def test_lengths_without_opening_videos_are_bounds(folder: Path, pool: DecoderPool) -> None:
    lengths = PromptBuilder(folder / "model", letter, 10_000)
    bounds = check(folder, lengths=lengths)
    exact = check(folder, lengths=lengths, opened=Opened(pool.probe, 2, lambda *_: None))
    assert not bounds.exact
    pairs = zip(exact.prompt_tokens[:3], bounds.prompt_tokens[:3], strict=True)
    assert all(counted <= bound for counted, bound in pairs)
    document = check_document(bounds, max_prompt_tokens=10)
    assert document["prompt_tokens"]["over"] == 5
    assert sum(document["prompt_tokens"]["histogram"]["counts"]) == 5


def test_the_same_words_about_other_options_are_another_question(folder: Path, tmp_path: Path) -> None:
    other = ROW | {"path": "else.mp4", "options": [f"{letter}. something else {letter}" for letter in "ABCD"]}
    file = write_rows(tmp_path / "other.json", [other])
    (overlap,) = check(folder, against=[(file, read_questions([file]))]).overlaps
    assert overlap.by_question == 0


def test_overlap_is_found_by_question_and_by_video_name(folder: Path, tmp_path: Path) -> None:
    mme = rows_by_format()["video-mme"]
    write_rows(tmp_path / "by_text.json", [mme | {"videoID": "other", "question": "  what COLOUR is the car? "}])
    write_rows(tmp_path / "by_video.json", [mme | {"videoID": "Good", "question": "Who drives?"}])
    files = [tmp_path / "by_text.json", tmp_path / "by_video.json"]
    result = check(folder, against=[(file, read_questions([file])) for file in files])
    assert [(o.by_question, o.by_video) for o in result.overlaps] == [(5, 0), (0, 2)]


def test_the_check_can_be_shown_and_drawn(folder: Path, pool: DecoderPool, tmp_path: Path) -> None:
    result = check(folder, opened=Opened(pool.probe, 2, lambda *_: None))
    shown = show_check(check_document(result, 100))
    for line in ("6 rows read, 5 kept", "1 dropped: answer_unresolved", "1: video_broken", "frames of a video"):
        assert line in shown
    draw_check(result, 100, tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="nothing to draw"):
        draw_check(check(folder), 100, tmp_path / "empty.png")


def test_memory_does_not_grow_with_the_rows() -> None:
    def rows(count: int) -> Iterator[ReadRow]:
        for number in range(count):
            media = (Media("video", f"/no/such/folder/{number}.mp4", limits={"fps": 2.0}),)
            text = f"Question {number}: what happens next?"
            question = Question(f"s/{number}", "multiple_choice", text, ("a", "b"), 0, media, "s")
            yield ReadRow(Path("rows.json"), number + 1, "verl", question)

    def peak(count: int) -> int:
        tracemalloc.start()
        try:
            result = check_questions(rows(count), SAMPLING)
            assert (result.media.distinct, result.media.rows_without, result.repeated) == (count, count, 0)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)  # what is made once
    few, many = peak(1_000), peak(9_000)
    assert (many - few) / 8_000 < 50  # bytes a row; with sets and lists of Python objects it is more than 500


def test_a_temporary_file_without_room_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videorl.data.seen._TABLES", f"{_TABLES}PRAGMA max_page_count = 20;")  # SQLite's own full disk
    media = (Media("video", "/no/such.mp4"),)
    questions = (Question(f"s/{i}", "multiple_choice", "Why?", ("a", "b"), 0, media, "s") for i in range(10_000))
    with pytest.raises(VideorlError, match="temporary file: database or disk is full; TMPDIR") as caught:
        check_questions((ReadRow(Path("rows.json"), 1, "verl", question) for question in questions), SAMPLING)
    assert caught.value.exit_code == 1
