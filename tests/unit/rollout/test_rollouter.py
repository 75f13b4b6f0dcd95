from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from builders_rollout import MemoryFrames, ScriptedEngine, make_frames, rollout
from videorl.data.tokens import TokenRules
from videorl.errors import DeadlineExceeded, EngineDied, QuestionDropped
from videorl.rewards.reward import Unscored
from videorl.rollout.pool import EnginePool
from videorl.rollout.rollouter import Rollouter
from videorl.types import (
    Drop,
    DroppedQuestion,
    DropReason,
    FrameRef,
    Frames,
    Group,
    IssuedQuestion,
    Media,
    Prompt,
    Question,
    Sampling,
    Score,
)

FORBIDDEN = 9
RULES = TokenRules(stop=(2,), forbidden=np.array([FORBIDDEN], np.int32), vocab_size=10)
MEDIA = Media("video", "/clips/a.mp4")
ISSUED = IssuedQuestion(0, 0, Question("q1", "multiple_choice", "?", ("x", "y"), 0, (MEDIA,), "test"))


class Prompts:
    thinks = False
    drop: Drop | None = None

    def build(self, question: Question, media: Sequence[tuple[FrameRef, Frames]]) -> Prompt:
        if self.drop:
            raise QuestionDropped(self.drop)
        ids = np.arange(4, dtype=np.int32)
        return Prompt(question.text, ids, ids, tuple(ref for ref, _ in media), self.thinks)


def letters(question: Question, completion: str, *, thinks: bool) -> Score | Unscored:
    if completion == "?":
        return Unscored("no letter")
    return Score(float(completion == "A"), 1.0, 1.0, completion)


def rollouter(*engines: ScriptedEngine, reward=letters, prompts: Prompts | None = None) -> Rollouter:
    source = MemoryFrames()
    source.frames[MEDIA.path] = make_frames(0)
    pool = EnginePool(engines, patience=0.01)
    return Rollouter(source, prompts or Prompts(), pool, reward, RULES, Sampling(1.0, 8), group_size=2)


async def test_a_question_becomes_a_scored_group_of_one_request() -> None:
    engine = ScriptedEngine("a", [rollout("A"), rollout("B")])
    group = await rollouter(engine).run(ISSUED, lambda: 5)
    assert isinstance(group, Group)
    assert [response.score.score for response in group.responses if response.score] == [1.0, 0.0]
    assert group.issued_version == 5
    assert group.prompt.frames[0].media == MEDIA
    assert [(n, sampling) for _, _, n, sampling in engine.requests] == [(2, Sampling(1.0, 8))]


async def test_the_version_is_read_when_the_request_is_handed_over_also_at_a_second_attempt() -> None:
    versions = iter([3, 4])
    dying, living = ScriptedEngine("a", fault=EngineDied("gone")), ScriptedEngine("b", [rollout("A")] * 2)
    group = await rollouter(dying, living).run(ISSUED, lambda: next(versions))
    assert isinstance(group, Group)
    assert group.issued_version == 4
    assert len({request[0] for request in dying.requests + living.requests}) == 2, "request ids repeat"


async def test_a_response_with_a_forbidden_token_is_dropped_with_its_reason_and_not_scored() -> None:
    engine = ScriptedEngine("a", [rollout("A", tokens=[1, FORBIDDEN, 2]), rollout("A")])
    group = await rollouter(engine).run(ISSUED, lambda: 0)
    assert isinstance(group, Group)
    bad, good = group.responses
    assert bad.score is None
    assert bad.drop == Drop(DropReason.FORBIDDEN_TOKEN, "it holds token 9")
    assert good.score is not None
    assert good.drop is None


async def test_an_unscorable_response_is_dropped_and_the_reward_may_be_awaited() -> None:
    async def awaited(question: Question, completion: str, *, thinks: bool) -> Score | Unscored:
        return letters(question, completion, thinks=thinks)

    engine = ScriptedEngine("a", [rollout("?"), rollout("A")])
    group = await rollouter(engine, reward=awaited).run(ISSUED, lambda: 0)
    assert isinstance(group, Group)
    assert group.responses[0].drop == Drop(DropReason.UNSCORABLE, "no letter")
    assert group.responses[1].score is not None


async def test_the_reward_is_told_that_the_prompt_opened_the_think_block() -> None:
    told = []

    def reward(question: Question, completion: str, *, thinks: bool) -> Score:
        told.append(thinks)
        return Score(0.0, 0.0, 0.0, None)

    prompts = Prompts()
    prompts.thinks = True
    await rollouter(ScriptedEngine("a", [rollout("A")] * 2), reward=reward, prompts=prompts).run(ISSUED, lambda: 0)
    assert told == [True, True]


async def test_a_group_without_any_usable_response_is_a_dropped_question_that_says_why() -> None:
    engine = ScriptedEngine("a", [rollout("?"), rollout("A", tokens=[FORBIDDEN])])
    dropped = await rollouter(engine).run(ISSUED, lambda: 0)
    assert isinstance(dropped, DroppedQuestion)
    assert dropped.drop == Drop(DropReason.NO_USABLE_RESPONSE, "0:q1: 1 unscorable, 1 forbidden_token")
    assert dropped.group is not None
    assert [r.drop.reason for r in dropped.group.responses if r.drop] == ["unscorable", "forbidden_token"]


async def test_a_question_that_cannot_be_asked_keeps_its_reason() -> None:
    prompts = Prompts()
    prompts.drop = Drop(DropReason.PROMPT_TOO_LONG, "9 tokens")
    assert await rollouter(ScriptedEngine("a"), prompts=prompts).run(ISSUED, lambda: 0) == DroppedQuestion(
        ISSUED, prompts.drop
    )


async def test_a_question_under_which_every_replica_dies_is_dropped_after_three() -> None:
    engines = [ScriptedEngine(name, fault=EngineDied(f"{name} is gone")) for name in "abcd"]
    dropped = await rollouter(*engines).run(ISSUED, lambda: 0)
    assert isinstance(dropped, DroppedQuestion)
    assert dropped.drop.reason is DropReason.GENERATION_FAILED
    assert sum(len(engine.requests) for engine in engines) == 3


async def test_a_group_that_takes_too_long_is_dropped_but_a_dead_pool_ends_the_run() -> None:
    late = await rollouter(ScriptedEngine("a", fault=DeadlineExceeded("a: took too long"))).run(ISSUED, lambda: 0)
    assert isinstance(late, DroppedQuestion)
    assert late.drop == Drop(DropReason.GENERATION_FAILED, "a: took too long")
    with pytest.raises(DeadlineExceeded, match="no rollout replica"):
        await rollouter().run(ISSUED, lambda: 0)
