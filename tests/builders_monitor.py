"""Groups and step records to show and record."""

from __future__ import annotations

import numpy as np

from builders_rewards import question
from videorl.types import Drop, DropReason, Group, IssuedQuestion, Prompt, Rollout, Score, ScoredRollout, StepRecord


def rollout(text: str, versions: tuple[int, ...] = (0, 0, 1)) -> Rollout:
    return Rollout(
        token_ids=np.arange(len(versions), dtype=np.int32),
        logprobs=np.full(len(versions), -0.5, dtype=np.float32),
        versions=np.array(versions, dtype=np.int32),
        text=text,
        finish_reason="stop",
    )


def group() -> Group:
    """One right answer, one wrong one, one dropped and one that is empty and wrong."""
    prompt = Prompt("<video>What passes?", np.zeros(1, np.int32), np.zeros(1, np.int32), frames=())
    responses = (
        ScoredRollout(rollout("it is\nB"), Score(1.0, 1.0, 1.0, "B")),
        ScoredRollout(rollout("A"), Score(0.2, 0.0, 1.0, "A")),
        ScoredRollout(rollout("<|video_pad|>"), None, Drop(DropReason.FORBIDDEN_TOKEN, "token 7")),
        ScoredRollout(rollout("", versions=()), Score(0.0, 0.0, 0.0, None)),
    )
    return Group(IssuedQuestion(2, 5, question()), prompt, responses, issued_version=0, seconds=1.5)


def record(step: int = 3, **metrics: float | int | None) -> StepRecord:
    return StepRecord(step, step, {"reward/mean": 0.5, "timing/step": 1.25, "grad_norm": None, **metrics})
