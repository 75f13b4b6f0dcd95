"""Which questions need no video: they are answered several times without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from itertools import islice

from videorl.types import Question

# Answers a question, which has no media any more, several times: right or wrong, each time.
AnswerBlind = Callable[[Question], Awaitable[Sequence[bool]]]


async def blind_shares(
    questions: Iterable[Question], answer: AnswerBlind, in_flight: int
) -> AsyncIterator[tuple[Question, float]]:
    """Each question, in order, with the share of its answers that were right although no video was shown.

    Args:
        in_flight: questions asked at once.
    """
    source = iter(questions)
    running = [(q, asyncio.ensure_future(_share(q, answer))) for q in islice(source, in_flight)]
    try:
        while running:
            question, share = running.pop(0)
            yield question, await share
            running += [(q, asyncio.ensure_future(_share(q, answer))) for q in islice(source, 1)]
    finally:
        for _, share in running:
            share.cancel()


async def _share(question: Question, answer: AnswerBlind) -> float:
    right = await answer(question)
    return sum(right) / len(right)
