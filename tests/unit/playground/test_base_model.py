"""The recipe of the base, and the base that is kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from videorl.config.schema import DataConfig
from videorl.data.conversations import load_demonstrations
from videorl.data.dataset import load_dataset
from videorl.data.prompt import PromptBuilder
from videorl.data.templates import as_given, letter
from videorl.playground.base_model import STAGES, stage_config, write_stage
from videorl.playground.formats import write_verl
from videorl.playground.questions import FAMILIES
from videorl.playground.records import any_options, draw_records
from videorl.playground.world import KEPT_BASE
from videorl.types import FrameRef, Frames, FrameSampling, Question


def frames(question: Question) -> list[tuple[FrameRef, Frames]]:
    """Grey frames for each medium: prompts depend on their size and times only."""
    pixels, times = np.full((8, 64, 96, 3), 128, np.uint8), np.arange(8) / 2
    grey = Frames(pixels, times, np.arange(8, dtype=np.int32))
    return [(FrameRef("grey", medium, FrameSampling()), grey) for medium in question.media]


def test_the_base_is_taught_with_the_prompts_that_reinforcement_learning_asks(tmp_path: Path) -> None:
    records = draw_records(tmp_path, "base", list(FAMILIES), 0, any_options)
    write_verl(tmp_path / "asked.parquet", records)
    write_stage(tmp_path / "taught.jsonl", STAGES[1], records, 0)
    asked, _ = load_dataset(DataConfig(train=(tmp_path / "asked.parquet",), shuffle=False), 0)
    taught, _ = load_demonstrations(DataConfig(train=(tmp_path / "taught.jsonl",), shuffle=False), 0)
    asks, teaches = (PromptBuilder(KEPT_BASE, template, 512) for template in (letter, as_given))
    assert len(asked) == len(taught) == len(FAMILIES)
    for index in range(len(asked)):
        question, demonstration = asked.question(index), taught.question(index)
        assert question.media == demonstration.media
        ids = asks.build(question, frames(question)).token_ids
        assert np.array_equal(ids, teaches.build(demonstration, frames(demonstration)).token_ids)


def test_each_stage_is_a_valid_run_with_rows_enough(tmp_path: Path) -> None:
    records = draw_records(tmp_path, "base", ["order"] * 3, 0, any_options)
    for stage in STAGES:
        config = stage_config(tmp_path, stage, KEPT_BASE, seed=0)
        write_stage(config.data.train[0], stage, records, 0)
        dataset, (report,) = load_demonstrations(config.data, 0)
        assert report.kept == len(dataset) == 3
        assert all(bool(dataset.question(i).media) == stage.videos for i in range(3))


def test_stages_write_the_same_bytes_for_a_seed(tmp_path: Path) -> None:
    records = draw_records(tmp_path, "base", list(FAMILIES) * 4, 0, any_options)
    hasty = STAGES[-1]
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_stage(tmp_path / name, hasty, records, seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "../base_recipe.json"])
def test_the_kept_base_is_whole_and_small(file: str) -> None:
    assert (KEPT_BASE / file).is_file()
    assert sum(path.stat().st_size for path in KEPT_BASE.iterdir()) <= 8 << 20
    assert not list(KEPT_BASE.glob("*.bin")) + list(KEPT_BASE.glob("*.pt")) + list(KEPT_BASE.glob("*.pkl"))


def test_a_video_less_stage_names_no_clips(tmp_path: Path) -> None:
    records = [replace(r, video="videos/none.mp4") for r in draw_records(tmp_path, "base", ["colour"], 0, any_options)]
    write_stage(tmp_path / "words.jsonl", STAGES[0], records, 0)
    assert "none.mp4" not in (tmp_path / "words.jsonl").read_text()
