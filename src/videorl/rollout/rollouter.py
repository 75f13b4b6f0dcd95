"""From an issued question to a scored group, or to the reason why there is none.

    question ─► frames ─► prompt ─► one request of n responses on one replica ─► drop forbidden ─► reward ─► Group
                                         └── the replica died: again on another one, a bounded number of times

Invariant: whatever happens to one question, `run` answers with a Group or a DroppedQuestion; only the end of the whole
pool (no replica lives for too long) and bugs are raised.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from videorl.data.source import FrameSource
from videorl.data.tokens import TokenRules
from videorl.errors import DeadlineExceeded, EngineDied, QuestionDropped
from videorl.rewards.reward import Reward, Unscored, judge
from videorl.rollout.engine import Engine
from videorl.types import (
    Drop,
    DroppedQuestion,
    DropReason,
    FrameRef,
    Frames,
    Group,
    IssuedQuestion,
    Prompt,
    Question,
    Rollout,
    Sampling,
    ScoredRollout,
)

ATTEMPTS = 3  # replicas that may die under one question


class PromptBuilder(Protocol):
    """The one place that knows the template (data/prompt)."""

    def build(self, question: Question, media: Sequence[tuple[FrameRef, Frames]]) -> Prompt:
        """Raises:
        QuestionDropped: PROMPT_TOO_LONG or PROMPT_INVALID.
        """
        ...


class Engines(Protocol):
    """Where a replica is had for one request (rollout/pool)."""

    def lease(self) -> AbstractAsyncContextManager[Engine]: ...


class Rollouter:
    """Runs any number of questions at once on one event loop; frames and prompts are made in threads."""

    def __init__(
        self,
        source: FrameSource,
        prompts: PromptBuilder,
        engines: Engines,
        reward: Reward,
        tokens: TokenRules,
        sampling: Sampling,
        group_size: int,
    ) -> None:
        self._source = source
        self._prompts = prompts
        self._engines = engines
        self._reward = reward
        self._tokens = tokens
        self._sampling = sampling
        self._group_size = group_size

    async def run(self, issued: IssuedQuestion, version: Callable[[], int]) -> Group | DroppedQuestion:
        """Ask one question; `version` tells the published version at the moment the request goes to an engine.

        Raises:
            DeadlineExceeded: no replica lives.
        """
        began = time.monotonic()
        try:
            prompt = await asyncio.to_thread(self._ask, issued.question)
            issued_version, rollouts = await self._sample(issued, prompt, version)
        except QuestionDropped as dropped:
            return DroppedQuestion(issued, dropped.drop)
        responses = await asyncio.gather(*(self._score(issued.question, prompt, rollout) for rollout in rollouts))
        group = Group(issued, prompt, tuple(responses), issued_version, time.monotonic() - began)
        if all(response.drop for response in responses):
            counts = Counter(response.drop.reason for response in responses if response.drop)
            detail = f"{issued.key}: " + ", ".join(f"{count} {reason}" for reason, count in counts.items())
            return DroppedQuestion(issued, Drop(DropReason.NO_USABLE_RESPONSE, detail), group)
        return group

    def _ask(self, question: Question) -> Prompt:
        refs = [self._source.reference(media) for media in question.media]
        return self._prompts.build(question, [(ref, self._source.load(ref)) for ref in refs])

    async def _sample(
        self, issued: IssuedQuestion, prompt: Prompt, version: Callable[[], int]
    ) -> tuple[int, list[Rollout]]:
        """The version at which sampling began, and the responses."""
        died = ""
        for attempt in range(ATTEMPTS):
            try:
                async with self._engines.lease() as engine:
                    began_at = version()
                    try:
                        return began_at, await engine.generate(
                            f"{issued.key}#{attempt}", prompt, self._group_size, self._sampling
                        )
                    except DeadlineExceeded as late:
                        raise QuestionDropped(Drop(DropReason.GENERATION_FAILED, str(late))) from late
            except EngineDied as death:
                died = str(death)
        raise QuestionDropped(Drop(DropReason.GENERATION_FAILED, f"{ATTEMPTS} replicas died, at last: {died}"))

    async def _score(self, question: Question, prompt: Prompt, rollout: Rollout) -> ScoredRollout:
        forbidden = self._tokens.first_forbidden(rollout.token_ids)
        if forbidden is not None:
            return ScoredRollout(rollout, None, Drop(DropReason.FORBIDDEN_TOKEN, f"it holds token {forbidden}"))
        verdict = await judge(self._reward, question, rollout.text, thinks=prompt.thinks)
        if isinstance(verdict, Unscored):
            return ScoredRollout(rollout, None, Drop(DropReason.UNSCORABLE, verdict.reason))
        return ScoredRollout(rollout, verdict)
