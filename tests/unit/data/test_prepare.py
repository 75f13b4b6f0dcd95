"""Filling the store, the normalised file, and questions that need no video."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from builders_data import even_times, write_clip
from builders_rows import rows_by_format, write_rows
from videorl.data.blind import blind_shares
from videorl.data.pool import DecoderPool
from videorl.data.prepare import BLIND, NormalisedFile, Preparation
from videorl.data.questions import read_questions
from videorl.data.store import FrameStore
from videorl.errors import UserError
from videorl.types import FrameSampling, Question

ROW = rows_by_format()["video-r1"]


@pytest.fixture(scope="module")
def pool() -> Iterator[DecoderPool]:
    pool = DecoderPool(2, timeout=60.0)
    yield pool
    pool.close()


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    for i in range(3):
        write_clip(tmp_path / f"{i}.mp4", even_times(20 + i, 10))
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    paths = ["0.mp4", "1.mp4", "2.mp4", "0.mp4", "broken.mp4"]
    texts = [f"Question {i}?" for i in range(len(paths))]
    written = [
        ROW | {"problem_id": i, "path": path, "problem": text}
        for i, (path, text) in enumerate(zip(paths, texts, strict=True))
    ]
    return write_rows(tmp_path / "rows.json", [*written, ROW | {"problem_type": "free-form"}])


def prepared(rows: Path, store: FrameStore) -> Preparation:
    preparation = Preparation(read_questions([rows]))
    preparation.fill(store, 2, lambda *_: None)
    return preparation


def read(file: Path) -> list[Question]:
    return [row.outcome for row in read_questions([file]) if isinstance(row.outcome, Question)]


def test_each_medium_is_decoded_once_and_a_second_call_decodes_nothing(
    rows: Path, pool: DecoderPool, tmp_path: Path
) -> None:
    store = FrameStore(tmp_path / "store", FrameSampling(), pool)
    steps: list[tuple[int, int]] = []
    preparation = Preparation(read_questions([rows]))
    filled = preparation.fill(store, 2, lambda done, total: steps.append((done, total)))
    assert (filled.media, filled.kept, dict(filled.dropped)) == (4, 3, {"video_broken": 1})
    assert filled.pixel_bytes == 3 * 2 * 96 * 128 * 3
    assert steps == [(i, 4) for i in range(1, 5)]
    closed = DecoderPool(1, timeout=1.0, command=("false",))  # would fail if it were asked
    again = Preparation(read_questions([write_rows(tmp_path / "good.json", json.loads(rows.read_text())[:3])]))
    assert again.fill(FrameStore(tmp_path / "store", FrameSampling(), closed), 2, lambda *_: None).kept == 3


def test_what_is_kept_reads_back_equal_and_every_drop_has_its_line(
    rows: Path, pool: DecoderPool, tmp_path: Path
) -> None:
    preparation = prepared(rows, FrameStore(tmp_path / "store", FrameSampling(), pool))
    with NormalisedFile(tmp_path / "out.parquet") as file:
        counts = preparation.write(file, {}, None)
    assert dict(counts) == {"kept": 4, "video_broken": 1, "not_multiple_choice": 1}
    originals = [row.outcome for row in read_questions([rows])]
    assert read(tmp_path / "out.parquet") == originals[:4]
    drops = [json.loads(line) for line in (tmp_path / "out.dropped.jsonl").read_text().splitlines()]
    assert {drop["reason"] for drop in drops} == {"video_broken", "not_multiple_choice"}
    assert any(drop["question"] == "rows/4" and "broken.mp4" in drop["detail"] for drop in drops)


def test_questions_that_need_no_video_are_marked_or_dropped(rows: Path, pool: DecoderPool, tmp_path: Path) -> None:
    preparation = prepared(rows, FrameStore(tmp_path / "store", FrameSampling(), pool))
    shares = {"rows/0": 1.0, "rows/1": 0.25}
    with NormalisedFile(tmp_path / "marked.parquet") as file:
        preparation.write(file, shares, None)
    assert [q.categories.get(BLIND) for q in read(tmp_path / "marked.parquet")] == ["1", "0.25", None, None]
    with NormalisedFile(tmp_path / "filtered.parquet") as file:
        counts = preparation.write(file, shares, blind_drop=0.75)
    assert counts["filtered"] == 1
    assert [q.id for q in read(tmp_path / "filtered.parquet")] == ["rows/1", "rows/2", "rows/3"]


async def test_blind_shares_come_in_order_with_a_bounded_number_asked_at_once(rows: Path) -> None:
    asked: list[str] = []
    running = most = 0

    async def answer(question: Question) -> Sequence[bool]:
        nonlocal running, most
        asked.append(question.id)
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01 * (5 - len(asked)))
        running -= 1
        return [question.id.endswith("0"), True]

    shares = [(q.id, share) async for q, share in blind_shares(read(rows), answer, in_flight=2)]
    assert shares == [("rows/0", 1.0), *((f"rows/{i}", 0.5) for i in range(1, 5))]
    assert most == 2


def test_a_preparation_that_fails_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), NormalisedFile(tmp_path / "out.parquet"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_no_parquet_is_the_users_fault(tmp_path: Path) -> None:
    for path in (tmp_path / "out.json", tmp_path / "no folder" / "out.parquet"):
        with pytest.raises(UserError, match=str(path)):
            NormalisedFile(path)
