"""Group → the lines of rollouts/step-NNNNNN.jsonl: every response with what it was worth, or why it was dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float64

from videorl.types import Group, ScoredRollout

# The scores of a group's scored responses, in order → their advantages (algo/advantage.py).
Advantages = Callable[[Float64[np.ndarray, "m"]], Float64[np.ndarray, "m"]]


def rollout_lines(step: int, version: int | None, group: Group, advantages: Advantages) -> Iterator[dict[str, Any]]:
    """One object for each response of a group that fit step `step` trained at `version`, or dropped whole (None)."""
    scores = np.array([r.score.score for r in group.responses if r.score], dtype=np.float64)
    of_scored = iter(advantages(scores).tolist())
    question = group.issued.question
    for index, response in enumerate(group.responses):
        yield {
            "step": step,
            "question": question.id,
            "source": question.source,
            "epoch": group.issued.epoch,
            "media": [media.path for media in question.media],
            "response_index": index,
            "prompt": group.prompt.text,
            "response": response.rollout.text,
            **_sampled(response, version),
            "answer": chr(ord("A") + question.answer) if question.answer >= 0 else None,
            **_judged(response),
            "advantage": next(of_scored) if response.score else None,
            "drop": response.drop.reason.value if response.drop else None,
            "drop_detail": response.drop.detail if response.drop else None,
        }


def _sampled(response: ScoredRollout, version: int | None) -> dict[str, Any]:
    rollout = response.rollout
    span = [int(rollout.versions[0]), int(rollout.versions[-1])] if len(rollout.versions) else None
    return {
        "tokens": len(rollout.token_ids),
        "finish_reason": rollout.finish_reason,
        "versions": span,
        "trained_at_version": version,
    }


def _judged(response: ScoredRollout) -> dict[str, Any]:
    score = response.score
    if score is None:
        return dict.fromkeys(("choice", "score", "accuracy", "format"))
    return {"choice": score.choice, "score": score.score, "accuracy": score.accuracy, "format": score.format}
