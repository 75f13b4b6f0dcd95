"""A model that answers questions without their video, for `videorl data prepare --blind-model`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from videorl.errors import QuestionDropped

if TYPE_CHECKING:
    from videorl.data.blind import AnswerBlind
    from videorl.types import Question


@asynccontextmanager
async def answering_blind(
    model: str, attempts: int, overrides: Sequence[str]
) -> AsyncIterator[tuple[AnswerBlind, int]]:
    """An engine in this process, sampling `attempts` answers at temperature 1, and how many questions it takes at once.

    `model` is a folder, RUN, RUN@STEP or RUN@keeper; prompt and reward are those that its weights were trained
    under, with `overrides` on top.
    """
    from videorl.data.prompt import PromptBuilder
    from videorl.data.store import FrameStore
    from videorl.data.templates import template_named
    from videorl.eval.run_folder import find_model
    from videorl.eval.settings import replica_settings
    from videorl.eval.setup import evaluation_config
    from videorl.rewards.load import load_reward
    from videorl.rewards.reward import Unscored, judge
    from videorl.rollout.vllm_engine import VllmEngine
    from videorl.types import Sampling

    choice = find_model(model)
    with TemporaryDirectory(prefix="videorl-blind-") as scratch:
        config = evaluation_config(choice, Path(scratch), overrides=[*overrides, f'data.store="{scratch}"'])
        form = "auto" if config.data.prompt == "as-given" else config.data.prompt
        template = template_named(form, config.reward.name)
        prompts = PromptBuilder(choice.folder, template, config.data.max_prompt_tokens)
        reward = load_reward(config.reward)
        sampling = Sampling(temperature=1.0, max_tokens=config.eval.max_response_tokens)
        store = FrameStore.from_config(config.data, config.store_dir)
        engine = await VllmEngine.start(replica_settings(config, choice.folder)[0], store, "blind")

        async def answer(question: Question) -> list[bool]:
            try:
                prompt = prompts.build(replace(question, media=()), [])
                rollouts = await engine.generate(f"blind/{question.id}", prompt, attempts, sampling)
            except QuestionDropped:
                return [False]  # what cannot be asked is not known to need no video
            verdicts = [await judge(reward, question, r.text, thinks=prompt.thinks) for r in rollouts]
            return [not isinstance(verdict, Unscored) and verdict.accuracy == 1 for verdict in verdicts]

        try:
            yield answer, max(1, config.rollout.max_num_seqs // attempts)
        finally:
            await engine.close()
            store.close()
