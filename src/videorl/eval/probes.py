"""Is it looking? The same questions without frames, with frames out of order, or with options in other places.

A model that watches loses by the first two and keeps its accuracy under the third.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from videorl.types import Question


def blind(question: Question) -> Question:
    """No frames at all."""
    return replace(question, media=())


def shuffle_frames(question: Question) -> Question:
    """The same frames in another order, under the times that they stood at before."""
    return replace(question, media=tuple(replace(medium, shuffle=_seed(question)) for medium in question.media))


def permute_options(question: Question) -> Question:
    """The options in another order, the right one under another letter."""
    rng = np.random.default_rng(_seed(question))
    count = len(question.options)
    order = rng.permutation(count)
    while count > 1 and order[question.answer] == question.answer:
        order = rng.permutation(count)
    return replace(
        question,
        options=tuple(question.options[i] for i in order),
        answer=int(np.flatnonzero(order == question.answer)[0]),
    )


PROBES: Mapping[str, Callable[[Question], Question]] = {
    "blind": blind,
    "shuffle-frames": shuffle_frames,
    "permute-options": permute_options,
}


def _seed(question: Question) -> int:
    """The same for the same question in every evaluation."""
    return int.from_bytes(hashlib.sha256(question.id.encode()).digest()[:4], "big")
