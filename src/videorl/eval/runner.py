"""Asks the rows of the benchmarks, on as many replicas as there are.

    rows by video ──► waiting ──► a free slot of a living replica: frames + prompt (thread) ──► engine(1) ──► reward
                         ▲                       │ one row of its video after the other                         │
                         └── what a replica that died leaves ◄──┘                        predictions.jsonl ◄────┘

Invariant: a row waits, is in the hands of one slot, or stands in the file; it enters the file once. Which replica
answers does not enter the file, so that one replica or three write the same rows. A slot asks all rows of a video in
turn: its frames are decoded once, and the engine computes the prompt's video part once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol

from videorl.errors import DeadlineExceeded, EngineDied, QuestionDropped, VideorlError
from videorl.eval.predictions import Prediction, PredictionFile, fingerprint
from videorl.rewards.reward import Reward, Unscored, judge
from videorl.rollout.engine import Engine
from videorl.types import DropReason, Prompt, Question, Sampling

_ROWS_IN_TURN = 8  # more questions about one video than this are asked side by side


@dataclass(slots=True, frozen=True)
class Row:
    """A question as a benchmark asks it."""

    benchmark: str
    question: Question


class Preparer(Protocol):
    """Turns a row into a prompt. Blocking; called from threads."""

    def __call__(self, row: Row) -> Prompt:
        """Raises:
        QuestionDropped: its video or its length does not allow it to be asked.
        """
        ...


@dataclass(slots=True, frozen=True)
class Runner:
    """Evaluates rows with engines that are handed in."""

    engines: Sequence[Engine]
    prepare: Preparer
    reward: Reward
    sampling: Sampling
    in_flight: int  # rows that one replica holds at once
    progress: Callable[[Prediction], None]

    async def run(self, rows: Sequence[Row], file: PredictionFile) -> None:
        """Ask every row that `file` does not answer yet.

        Raises:
            VideorlError: every replica died; what was answered before stands in the file.
        """
        waiting = deque(_by_video([row for row in rows if file.find(row.benchmark, row.question) is None]))
        free = deque(list(self.engines) * self.in_flight)
        dead: set[str] = set()
        busy: dict[asyncio.Task[list[Row]], Engine] = {}
        try:
            while waiting or busy:
                while waiting and free:
                    engine = free.popleft()
                    busy[asyncio.create_task(self._ask(engine, waiting.popleft(), file))] = engine
                if not busy:
                    left = sum(map(len, waiting))
                    raise VideorlError(f"every replica died; {left} of {len(rows)} rows are left: run it again")
                done, _ = await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    engine = busy.pop(task)
                    if unanswered := task.result():
                        dead.add(engine.name)
                        waiting.appendleft(unanswered)
                    free.append(engine)
                free = deque(engine for engine in free if engine.name not in dead)
        finally:
            for task in busy:
                task.cancel()

    async def _ask(self, engine: Engine, rows: list[Row], file: PredictionFile) -> list[Row]:
        """Write the predictions of one video's rows; the rows that are left when the replica dies over them."""
        for number, row in enumerate(rows):
            try:
                prediction = await self._predict(engine, row)
            except EngineDied:
                return rows[number:]
            file.append(prediction)
            self.progress(prediction)
        return []

    async def _predict(self, engine: Engine, row: Row) -> Prediction:
        try:
            prompt = await asyncio.to_thread(self.prepare, row)
            (rollout,) = await engine.generate(f"{row.benchmark}:{row.question.id}", prompt, 1, self.sampling)
        except QuestionDropped as dropped:
            return failure(row, f"{dropped.drop.reason.value}: {dropped.drop.detail}")
        except DeadlineExceeded as error:
            return failure(row, f"{DropReason.GENERATION_FAILED.value}: {error}")
        verdict = await judge(self.reward, row.question, rollout.text, thinks=prompt.thinks)
        if isinstance(verdict, Unscored):
            return failure(row, f"{DropReason.UNSCORABLE.value}: {verdict.reason}")
        return replace(
            _unanswered(row),
            response=rollout.text,
            choice=verdict.choice,
            accuracy=verdict.accuracy,
            format=verdict.format,
            score=verdict.score,
            tokens=len(rollout.token_ids),
            finish_reason=rollout.finish_reason,
            frames=tuple(ref.key for ref in prompt.frames),
        )


def failure(row: Row, error: str) -> Prediction:
    """A row without a response."""
    return replace(_unanswered(row), error=error)


def _unanswered(row: Row) -> Prediction:
    question = row.question
    return Prediction(
        benchmark=row.benchmark,
        id=question.id,
        question=fingerprint(question),
        options=question.options,
        answer=chr(ord("A") + question.answer),
        categories=dict(question.categories),
    )


def _by_video(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Neighbouring rows about the same media, as one slot takes them."""
    for _, same in groupby(rows, key=lambda row: row.question.media):
        left = list(same)
        while left:
            yield left[:_ROWS_IN_TURN]
            left = left[_ROWS_IN_TURN:]
