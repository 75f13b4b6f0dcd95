import math

import numpy as np
import pytest
import torch

from videorl.algo.logprobs import token_logprobs
from videorl.algo.loss import likelihood_loss, policy_loss
from videorl.config.schema import AlgoConfig


def loss_of(ratios, advantages, denominator=1, branch=None, **algo):
    """The loss and its gradient by log-prob, for tokens with the given ratios."""
    old = torch.full((len(ratios),), -2.0, dtype=torch.float64)
    new = (old + torch.tensor(ratios, dtype=torch.float64).log()).requires_grad_()
    branch = torch.tensor(branch if branch is not None else range(len(ratios)))
    fresh = torch.ones(len(ratios), dtype=torch.bool)
    entropy = torch.zeros_like(old)
    a = torch.tensor(advantages, dtype=torch.float64)
    loss, metrics = policy_loss(new, entropy, old, a, branch, fresh, denominator, AlgoConfig(**algo))
    loss.backward()
    return loss.item(), new.grad.tolist(), metrics


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.0, 1.0, -1.0, -1.0),
        (1.2, 1.0, -1.2, -1.2),
        (1.5, 1.0, -1.3, 0.0),  # clipped above
        (0.5, 1.0, -0.5, -0.5),  # the pessimistic side is not clipped
        (0.5, -1.0, 0.8, 0.0),  # clipped below
        (1.5, -1.0, 1.5, 1.5),
        (25.0, -1.0, 10.0, 0.0),  # dual clip
        (25.0, -0.5, 5.0, 0.0),
        (0.5, 0.0, 0.0, 0.0),
    ],
)
def test_the_loss_of_one_token(ratio, advantage, loss, gradient):
    got, (slope,), _ = loss_of([ratio], [advantage])
    assert got == pytest.approx(loss)
    assert slope == pytest.approx(gradient)


def test_the_sum_is_divided_by_the_denominator_that_is_handed_in():
    assert loss_of([1.0, 1.0], [1.0, 3.0], denominator=8)[0] == pytest.approx(-0.5)


def test_a_huge_log_ratio_stays_finite():
    loss, gradient, _ = loss_of([math.exp(60.0), math.exp(-60.0)], [1.0, 1.0])
    assert math.isfinite(loss)
    assert np.isfinite(gradient).all()


def test_truncated_importance_weights_are_capped_and_constant():
    loss, gradient, _ = loss_of([5.0], [1.0], importance="truncated", importance_cap=2.0)
    assert gradient == pytest.approx([-2.0])
    assert loss == pytest.approx(-2.0 * (math.log(5.0) - 2.0))


def test_masked_importance_leaves_out_tokens_beyond_the_cap():
    _, gradient, _ = loss_of([1.1, 5.0, 0.1], [1.0, 1.0, 1.0], importance="masked", importance_cap=2.0)
    assert gradient == pytest.approx([-1.1, 0.0, 0.0])


def test_sequence_level_ratios_are_the_geometric_mean_of_the_response():
    ratios = [1.2, 1.05, 0.9]
    _, gradient, _ = loss_of(ratios, [1.0, 1.0, 1.0], branch=[0, 0, 1], ratio_level="sequence")
    mean = math.sqrt(1.2 * 1.05)
    assert gradient == pytest.approx([-mean, -mean, -0.9])


def test_the_entropy_bonus_is_subtracted():
    logprobs = torch.tensor([-1.0])
    arguments = (logprobs, torch.zeros(1), torch.zeros(1, dtype=torch.long), torch.ones(1, dtype=torch.bool), 2)
    loss, _ = policy_loss(logprobs, torch.tensor([3.0]), *arguments, AlgoConfig(entropy_coef=0.1))
    assert loss.item() == pytest.approx(-0.15)


def test_metrics_count_what_was_clipped_and_tell_fresh_tokens_apart():
    _, _, metrics = loss_of([1.5, 0.5, 25.0, 1.0], [1.0, -1.0, -1.0, 1.0])
    assert metrics.sums["clip_high"] == 1
    assert metrics.sums["clip_low"] == 1
    assert metrics.sums["dual_clip"] == 1
    assert metrics.maxima["fresh_diff"] == pytest.approx(math.log(25.0))


def test_the_likelihood_loss_is_the_mean_over_the_updates_tokens():
    loss, _ = likelihood_loss(torch.tensor([-1.0, -3.0]), torch.zeros(2), denominator=4)
    assert loss.item() == pytest.approx(1.0)


def test_logprobs_are_those_of_the_softmax_without_forbidden_ids():
    logits = torch.randn(5, 11, generator=torch.Generator().manual_seed(1))
    targets, forbidden = torch.tensor([0, 1, 2, 3, 10]), torch.tensor([4, 9])
    logprobs, entropy = token_logprobs(logits, targets, 0.7, forbidden)
    exact = np.delete(logits.double().numpy() / 0.7, [4, 9], axis=1)
    p = np.exp(exact) / np.exp(exact).sum(1, keepdims=True)
    columns = [0, 1, 2, 3, 8]
    np.testing.assert_allclose(logprobs, np.log(p[range(5), columns]), atol=1e-6)
    np.testing.assert_allclose(entropy, -(p * np.log(p)).sum(1), atol=1e-6)


def test_a_forbidden_target_has_no_probability():
    logprobs, entropy = token_logprobs(torch.zeros(1, 4), torch.tensor([2]), 1.0, torch.tensor([2]))
    assert logprobs.item() == -math.inf
    assert entropy.item() == pytest.approx(math.log(3))
