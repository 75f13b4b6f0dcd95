"""Branch-packed rows against one ordinary transformers forward per response."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText

from builders_train import FramesInMemory, SeparateSequences, make_group, tiny_config
from trainer_ranks import Job, run_ranks, single_rank
from videorl.batching.plan import plan_micro_batches
from videorl.train.rank import RankUpdate
from videorl.types import UpdateBatch


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def folder(request, tmp_path_factory):
    from videorl.playground.tiny_model import make_tiny_model

    path = tmp_path_factory.mktemp("model")
    make_tiny_model(path, seed=3, tie=request.param)
    return path


@pytest.fixture
def reference(folder):
    from videorl.data.tokens import TokenRules

    return SeparateSequences(folder, 0.7, TokenRules.of_model(folder).forbidden)


def groups_of(source, model):
    """Ragged branches, two videos of different lengths in one prompt, none in another."""
    return (
        make_group(source, model, 1, [9, 1, 30]),
        make_group(source, model, 2, [5, 17], videos=2),
        make_group(source, model, 3, [12, 12, 3], videos=0),
    )


@pytest.mark.parametrize("attention", ["split", "dense"])
def test_logprobs_equal_those_of_separate_sequences(folder, reference, attention):
    source = FramesInMemory()
    groups = groups_of(source, reference.model)
    with single_rank(tiny_config(folder, model={"attention": attention}), source) as rank:
        (packed,) = rank.logprobs([groups])
    with torch.no_grad():
        separate = np.concatenate([reference.logprobs(source, g, b).numpy() for g in groups for b in g.branches])
    np.testing.assert_allclose(packed, separate, atol=1e-4)
    assert np.abs(packed - separate).max() < 1e-4


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("attention", ["split", "dense"])
def test_gradients_equal_those_of_separate_sequences(folder, reference, attention, recompute):
    source = FramesInMemory()
    groups = groups_of(source, reference.model)
    tokens = sum(g.response_tokens for g in groups) + 11  # 11 tokens of groups without advantage
    config = tiny_config(
        folder,
        model={"attention": attention},
        trainer={"activation_checkpointing": recompute},
    )
    batch = UpdateBatch(step=1, index=0, version=0, groups=(), denominator=tokens)
    with single_rank(config, source) as rank:
        gradients = rank.gradients(batch, [groups])
    expected = expected_gradients(reference, source, groups, tokens)
    assert gradients.keys() == expected.keys()
    for name, want in expected.items():
        difference = (gradients[name] - want).norm() / (want.norm() + 1e-12)
        assert difference < 1e-4, f"{name}: {difference:.2e}"


def expected_gradients(reference, source, groups, tokens):
    """The loss of the design, written out again over separate sequences."""
    reference.model.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for group in groups:
        for branch in group.branches:
            logprobs = reference.logprobs(source, group, branch)
            ratio = (logprobs - torch.from_numpy(branch.old_logprobs).double()).clamp(-20, 20).exp()
            a = branch.advantage
            per_token = torch.maximum(-ratio * a, -ratio.clamp(0.8, 1.3) * a)
            if a < 0:
                per_token = per_token.clamp(max=-10 * a)
            total = total + per_token.sum()
    (total / tokens).backward()
    return {n: p.grad.clone() for n, p in reference.model.named_parameters() if p.grad is not None}


@pytest.mark.slow
def test_ranks_and_micro_batches_do_not_change_the_gradient(folder, reference):
    source = FramesInMemory()
    groups = tuple(make_group(source, reference.model, seed, [6, 11, 4, 9]) for seed in range(1, 6))
    batch = UpdateBatch(1, 0, 0, (), sum(g.response_tokens for g in groups))
    config = tiny_config(folder)
    (small,) = plan_micro_batches(groups, 1, token_budget=70)
    assert len(small) >= 4
    with single_rank(config, source) as rank:
        one = rank.gradients(batch, [groups])
    with single_rank(config, source) as rank:
        others = [rank.gradients(batch, small)]
    halves = plan_micro_batches(groups, 2, token_budget=4096)
    others += run_ranks(source, [Job(config, batch, halves), Job(config, batch, [[groups], [()]])])
    for other in others:
        assert other.keys() == one.keys()
        for name, want in one.items():
            assert (other[name] - want).norm() <= 1e-5 * want.norm() + 1e-10, name


@pytest.mark.slow
def test_a_checkpoint_of_two_ranks_goes_on_with_one(folder, reference, tmp_path):
    source = FramesInMemory()
    groups = tuple(make_group(source, reference.model, seed, [6, 11]) for seed in (1, 2, 3))
    batch = UpdateBatch(1, 0, 0, (), 34)
    first, second = RankUpdate(batch, [groups[:2]]), RankUpdate(batch, [groups[2:]])
    config = tiny_config(folder)
    run_ranks(source, [Job(config, batch, [[groups[:1]], [groups[1:2]]], save=tmp_path)])
    with single_rank(config, source) as rank:
        rank.update(first)
        straight = rank.weights()
        rank.update(second)
        straight_on = rank.weights()
    with single_rank(config, source) as rank:
        rank.load(tmp_path)
        resumed = rank.weights()
        rank.update(second)
        resumed_on = rank.weights()
    written = AutoModelForImageTextToText.from_pretrained(tmp_path / "hf", local_files_only=True, dtype=torch.float32)
    assert all(torch.equal(resumed[name], saved) for name, saved in written.named_parameters())
    # Norms, because Adam turns a gradient of next to nothing into a whole step whose sign is the order of a sum. With
    # moments that were lost the step is another one altogether.
    for name, before in straight.items():
        step = straight_on[name] - before
        assert (resumed_on[name] - resumed[name] - step).norm() <= 0.02 * step.norm(), name
