"""One rank: steps, skips, checkpoints, frozen vision, rows without a video."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForImageTextToText

from builders_train import FramesInMemory, make_group, tiny_config
from trainer_ranks import single_rank
from videorl.errors import QuestionDropped
from videorl.playground.tiny_model import make_tiny_model
from videorl.train.rank import RankUpdate
from videorl.types import Drop, DropReason, UpdateBatch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    make_tiny_model(path, seed=5)
    return path


@pytest.fixture(scope="module")
def model_config(folder):
    return AutoModelForImageTextToText.from_pretrained(folder, local_files_only=True).config


def work(groups, step=1, index=0, version=0):
    batch = UpdateBatch(step, index, version, (), sum(g.response_tokens for g in groups))
    return RankUpdate(batch, [tuple(groups)])


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_step_changes_every_weight_and_says_what_it_did(folder, model_config):
    source = FramesInMemory()
    with single_rank(tiny_config(folder), source) as rank:
        before = rank.weights()
        report = rank.update(work([make_group(source, model_config, 1, [8, 5])]))
        after = rank.weights()
    assert report.stepped
    assert report.lr == pytest.approx(1e-3)
    assert report.counts["response_tokens"] == 13
    assert report.counts["vision_passes"] == 1
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert not {name for name in before if "deepstack" in name} - moved


def test_frozen_vision_stays_as_it_was_and_is_not_sent(folder, model_config):
    source = FramesInMemory()
    with single_rank(tiny_config(folder, model={"freeze_vision": True}), source) as rank:
        before = rank.weights()
        rank.update(work([make_group(source, model_config, 1, [8, 5])]))
        after = rank.weights()
        handle = rank.stage_weights(1)
        (file,) = Path(handle.location).glob("*.safetensors")
        with safe_open(file, "pt") as staged:
            sent = set(staged.keys())
    vision = {name for name in before if ".visual." in name}
    assert vision
    assert all(torch.equal(before[name], after[name]) for name in vision)
    assert sent == before.keys() - vision


def test_a_non_finite_gradient_skips_the_step(folder, model_config):
    source = FramesInMemory()
    with single_rank(tiny_config(folder), source) as rank:
        before = rank.weights()
        report = rank.update(work([make_group(source, model_config, 1, [8, 5], advantage=float("nan"))]))
        after = rank.weights()
    assert (report.stepped, report.skipped) == (False, "nonfinite_gradient")
    assert equal(before, after)


def test_a_group_whose_frames_are_gone_is_left_out_and_counted(folder, model_config):
    source = FramesInMemory()
    kept, lost = (make_group(source, model_config, seed, [8, 5]) for seed in (1, 2))
    load = source.load

    def load_or_miss(ref):
        if ref == lost.frames[0]:
            raise QuestionDropped(Drop(DropReason.VIDEO_MISSING, "gone"))
        return load(ref)

    source.load = load_or_miss
    with single_rank(tiny_config(folder), source) as rank:
        report = rank.update(work([kept, lost]))
    assert report.stepped
    assert (report.counts["groups_lost"], report.counts["response_tokens"]) == (1, 13)


def test_fresh_tokens_are_compared_only_before_the_steps_first_update(folder, model_config):
    source = FramesInMemory()
    group = make_group(source, model_config, 1, [8, 5])
    with single_rank(tiny_config(folder), source) as rank:
        first = rank.update(work([group], index=0, version=0))
        second = rank.update(work([group], index=1, version=0))
        stale = rank.update(work([group], index=0, version=1))
    assert "logprob/max_diff" in first.metrics
    assert "logprob/max_diff" not in second.metrics
    assert "logprob/max_diff" not in stale.metrics


def test_training_goes_on_exactly_from_a_checkpoint(folder, model_config, tmp_path):
    source = FramesInMemory()
    groups = [make_group(source, model_config, seed, [8, 5, 6]) for seed in (1, 2, 3)]
    config = tiny_config(folder)
    with single_rank(config, source) as rank:
        rank.update(work(groups[:1], step=1))
        rank.save(tmp_path)
        rank.update(work(groups[1:], step=2))
        straight = rank.weights()
    with single_rank(config, source) as rank:
        rank.load(tmp_path)
        rank.update(work(groups[1:], step=2))
        resumed = rank.weights()
    assert equal(straight, resumed)


def test_a_checkpoints_hugging_face_folder_holds_the_same_weights(folder, model_config, tmp_path):
    source = FramesInMemory()
    with single_rank(tiny_config(folder), source) as rank:
        rank.update(work([make_group(source, model_config, 1, [8, 5])]))
        rank.save(tmp_path)
        weights = rank.weights()
    loaded = AutoModelForImageTextToText.from_pretrained(tmp_path / "hf", local_files_only=True, dtype=torch.float32)
    stored = dict(loaded.named_parameters())
    assert stored.keys() == weights.keys()
    assert all(torch.equal(stored[name], weights[name]) for name in weights)
    assert loaded.config.text_config.rope_parameters["mrope_section"] == [6, 5, 5]


def test_the_warm_up_is_linear_over_fit_steps(folder, model_config):
    source = FramesInMemory()
    config = tiny_config(folder, trainer={"warmup_steps": 4})
    with single_rank(config, source) as rank:
        group = make_group(source, model_config, 1, [8])
        rates = [rank.update(work([group], step=step)).lr for step in (1, 2, 4, 9)]
    np.testing.assert_allclose(rates, [0.25e-3, 0.5e-3, 1e-3, 1e-3])
