"""Given responses in the place of sampled ones: what `videorl sft` trains on goes the way of every group."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np
from transformers import PreTrainedTokenizerBase

from videorl.data.source import FrameSource
from videorl.errors import QuestionDropped
from videorl.rollout.rollouter import PromptBuilder
from videorl.types import Drop, DroppedQuestion, DropReason, Group, IssuedQuestion, Rollout, Score, ScoredRollout

_TAKEN_AS_RIGHT = Score(score=1.0, accuracy=1.0, format=1.0, choice=None)


class Demonstrations:
    """Turns an issued question with a demonstration into a group of that one response."""

    def __init__(
        self, source: FrameSource, prompts: PromptBuilder, tokenizer: PreTrainedTokenizerBase, max_tokens: int
    ) -> None:
        """
        Args:
            max_tokens: a longer response is dropped, its end token included; never cut.
        """
        self._source = source
        self._prompts = prompts
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens

    async def run(self, issued: IssuedQuestion, version: Callable[[], int]) -> Group | DroppedQuestion:
        """The group of one question; `version` is that of the weights now, which sampled nothing of it."""
        began = time.monotonic()
        try:
            return await asyncio.to_thread(self._group, issued, version(), began)
        except QuestionDropped as dropped:
            return DroppedQuestion(issued, dropped.drop)

    def _group(self, issued: IssuedQuestion, version: int, began: float) -> Group:
        question = issued.question
        refs = [self._source.reference(media) for media in question.media]
        prompt = self._prompts.build(question, [(ref, self._source.load(ref)) for ref in refs])
        text = question.demonstration or ""
        ids = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        ids = np.array([*ids, self._tokenizer.eos_token_id], dtype=np.int32)
        if len(ids) > self._max_tokens:
            detail = f"{question.id}: {len(ids)} tokens are more than rollout.max_response_tokens = {self._max_tokens}"
            raise QuestionDropped(Drop(DropReason.RESPONSE_TOO_LONG, detail))
        rollout = Rollout(
            token_ids=ids,
            logprobs=np.zeros(len(ids), dtype=np.float32),
            versions=np.full(len(ids), version, dtype=np.int32),
            text=text,
            finish_reason="stop",
        )
        responses = (ScoredRollout(rollout, _TAKEN_AS_RIGHT),)
        return Group(issued, prompt, responses, version, time.monotonic() - began)
