"""The vLLM engine against transformers: ids, log-probs, mask, publications under load."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from builders_data import even_times, number_of, write_clip
from builders_engine import TOLERANCE, RunningEngine
from builders_rollout import perturbed
from videorl.config.schema import DataConfig
from videorl.data.dataset import load_dataset
from videorl.data.prompt import PromptBuilder, video_input
from videorl.data.store import FrameStore
from videorl.data.templates import letter
from videorl.errors import QuestionDropped
from videorl.eval.prepare import RowPreparer
from videorl.eval.runner import Row
from videorl.playground.world import make_playground
from videorl.types import DropReason, Frames, Media, Prompt, Question, Rollout, Sampling

pytestmark = pytest.mark.slow

Asked = list[tuple[Prompt, Frames, list[Rollout]]]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
async def test_the_engines_logprobs_are_those_of_transformers(running: RunningEngine, temperature: float) -> None:
    sampling = Sampling(temperature, max_tokens=48)
    prompt, video = running.ask(seed=1, frames=8)
    rollouts = await running.engine.generate("parity", prompt, 4, sampling)
    assert len(rollouts) == 4
    for rollout in rollouts:
        assert running.difference(prompt, video, rollout, sampling).max() < TOLERANCE
        assert set(rollout.versions) == {running.handle.version}
        ended = rollout.token_ids[-1] in running.settings.tokens.stop
        assert (rollout.finish_reason, ended) in [("stop", True), ("length", False)]
        assert "<|im_end|>" not in rollout.text


async def test_two_videos_of_one_size_do_not_share_a_cache(running: RunningEngine) -> None:
    sampling = Sampling(1.0, max_tokens=8)
    first, second = running.ask(seed=10), running.ask(seed=11)
    second = (replace(first[0], frames=second[0].frames), second[1])  # the same ids, other pixels
    await running.engine.generate("first", first[0], 1, sampling)
    (rollout,) = await running.engine.generate("second", second[0], 1, sampling)
    assert running.difference(*second, rollout, sampling).max() < TOLERANCE
    assert running.difference(first[0], first[1], rollout, sampling).max() > TOLERANCE


async def test_logprobs_are_right_after_each_publication(running: RunningEngine) -> None:
    prompt, video = running.ask(seed=2)
    for seed in (1, 2):
        old = await running.engine.generate(f"before {seed}", prompt, 1, Sampling(1.0, 8))
        handle = await running.publish(perturbed(running.oracle.model, seed))
        assert await running.engine.version() == handle.version
        for temperature in (1.0, 0.7):
            sampling = Sampling(temperature, max_tokens=32)
            for rollout in await running.engine.generate(f"{seed} {temperature}", prompt, 2, sampling):
                assert set(rollout.versions) == {handle.version}
                assert running.difference(prompt, video, rollout, sampling).max() < TOLERANCE
        assert running.difference(prompt, video, old[0], Sampling(1.0, 8)).max() > TOLERANCE, "nothing changed"


async def test_a_frozen_vision_tower_may_be_left_out_of_a_publication(running: RunningEngine) -> None:
    prompt, video = running.ask(seed=3)
    text_only = [(name, tensor) for name, tensor in perturbed(running.oracle.model, 5) if "visual" not in name]
    await running.publish(text_only)
    (rollout,) = await running.engine.generate("frozen", prompt, 1, Sampling(1.0, 32))
    assert running.difference(prompt, video, rollout, Sampling(1.0, 32)).max() < TOLERANCE


async def test_publications_in_the_middle_of_long_responses_lose_nothing(running: RunningEngine) -> None:
    sampling = Sampling(1.0, max_tokens=500)
    before = running.handle.version
    asked = await publish_while_generating(running, [running.ask(seed) for seed in (20, 21)], 8, sampling)
    rollouts = [rollout for _, _, group in asked for rollout in group]
    assert len(rollouts) == 16
    assert any(len(set(rollout.versions)) > 1 for rollout in rollouts), "no publication fell into a response"
    assert running.handle.version > before
    check_segments(running, asked, sampling)


async def test_publications_during_prefills_lose_nothing(running: RunningEngine) -> None:
    # While the queue is not empty some prompt is half computed at the end of nearly every step.
    sampling = Sampling(0.7, max_tokens=12)
    questions = [running.ask(seed, frames=8, words=200) for seed in range(30, 54)]
    assert min(len(prompt.token_ids) for prompt, _ in questions) > 3 * running.settings.max_batched_tokens
    asked = await publish_while_generating(running, questions, 2, sampling)
    firsts = {int(rollout.versions[0]) for _, _, group in asked for rollout in group}
    assert len(firsts) > 1, "no publication fell between the first tokens of two groups"
    check_segments(running, asked, sampling)


async def publish_while_generating(
    running: RunningEngine, questions: list[tuple[Prompt, Frames]], n: int, sampling: Sampling
) -> Asked:
    """Up to five publications, at growing distances, until every group is there."""
    label = f"{running.handle.version}:{sampling.max_tokens}"
    groups = asyncio.gather(
        *(running.engine.generate(f"{label}:{i}", prompt, n, sampling) for i, (prompt, _) in enumerate(questions))
    )
    for pause in (0.1, 0.2, 0.4, 0.8, 1.6):
        await asyncio.wait({groups}, timeout=pause)
        if groups.done():
            break
        await running.engine.load_weights(running.stage(perturbed(running.oracle.model, running.handle.version, 0.3)))
    return [(prompt, video, group) for (prompt, video), group in zip(questions, await groups, strict=True)]


def check_segments(running: RunningEngine, asked: Asked, sampling: Sampling) -> None:
    """Versions never fall, and each version's tokens have the log-probs of that version's weights alone."""
    versions = sorted({int(v) for _, _, group in asked for rollout in group for v in rollout.versions})
    folder = Path(running.handle.location).parent
    for version in versions:
        running.oracle.load(folder / f"version-{version:06d}")
        for prompt, video, group in asked:
            for rollout in group:
                assert (np.diff(rollout.versions) >= 0).all()
                own = rollout.versions == version
                if own.any():
                    assert running.difference(prompt, video, rollout, sampling)[own].max() < TOLERANCE
    running.oracle.load(Path(running.handle.location))


async def test_a_model_pushed_to_a_vision_token_never_samples_it(running: RunningEngine) -> None:
    sampling = Sampling(1.0, max_tokens=32)
    prompt, video = running.ask(seed=4)
    oracle, pad = running.oracle, running.oracle.processor.tokenizer.convert_tokens_to_ids("<|video_pad|>")
    weights = {name: p.detach().clone() for name, p in oracle.model.named_parameters()}
    pushed = oracle.hidden_states(prompt, video).mean(0)
    weights["lm_head.weight"][pad] = 40 * pushed / pushed.square().sum()
    await running.publish(weights.items())
    rollouts = await running.engine.generate("pushed", prompt, 8, sampling)
    for rollout in rollouts:
        unmasked = oracle.logits(prompt, video, rollout).softmax(-1)[:, pad]
        assert unmasked.median() > 0.9, "the push does not work"
        assert not np.isin(rollout.token_ids, running.settings.tokens.forbidden).any()
        assert running.difference(prompt, video, rollout, sampling).max() < TOLERANCE


async def test_every_playground_prompt_is_expanded_as_the_trainer_expands_it(
    running: RunningEngine, tmp_path: Path
) -> None:
    playground = make_playground(tmp_path, questions_per_family=2)
    data = DataConfig(train=tuple(sorted(playground.glob("*.parquet"))), fps=2.0, max_frames=8, decode_workers=1)
    dataset, _ = load_dataset(data, seed=0)
    store = FrameStore.from_config(data, tmp_path / "frames")
    prompts = PromptBuilder(running.folder, letter, max_prompt_tokens=900)
    assert len(dataset) >= 10
    for index in range(len(dataset)):
        question = dataset.question(index)
        ref = store.reference(question.media[0])
        frames = store.load(ref)
        running.source.frames[ref.key] = frames
        prompt = prompts.build(question, [(ref, frames)])
        trainers = running.oracle.processor(
            text=[prompt.text],
            videos=[torch.from_numpy(frames.pixels.copy()).permute(0, 3, 1, 2)],
            video_metadata=[video_input(frames).metadata],
            do_sample_frames=False,
            do_resize=False,
        )
        assert np.array_equal(trainers["input_ids"][0], prompt.token_ids)
        await running.engine.generate(f"playground {index}", prompt, 1, Sampling(1.0, 1))  # compares with its own
    store.close()


async def test_a_minute_of_video_has_its_burnt_in_times_in_trainer_rollout_and_evaluation(
    running: RunningEngine, tmp_path: Path
) -> None:
    clip = write_clip(tmp_path / "minute.mp4", even_times(1_800, 30), gop=250)
    data = DataConfig(train=("-",), max_pixels=2_048, min_pixels=1_024, decode_workers=1)
    assert data.max_frames == 24
    store = FrameStore.from_config(data, tmp_path / "frames")
    media = (Media("video", str(clip)),)
    row = Question("minute", "multiple_choice", "What is shown?", ("red", "blue"), 0, media, "made")
    ref = store.reference(row.media[0])
    frames = running.source.frames[ref.key] = store.load(ref)
    burnt_in = np.array([number_of(picture) for picture in frames.pixels]) / 30
    markers = [f"<{(a + b) / 2:.1f} seconds>" for a, b in burnt_in.reshape(12, 2)]
    prompts = PromptBuilder(running.folder, letter, max_prompt_tokens=900)
    trained = prompts.build(row, [(ref, frames)])
    asked = RowPreparer(store, prompts, "train", {"made": "classic"}, None)(Row("made", row))
    store.close()
    for prompt in (trained, asked):
        text = running.oracle.processor.tokenizer.decode(prompt.token_ids)
        assert re.findall(r"<[\d.]+ seconds>", text) == markers
        await running.engine.generate("minute", prompt, 1, Sampling(1.0, 1))  # compares with its own


async def test_a_prompt_that_the_engine_expands_differently_is_dropped(running: RunningEngine) -> None:
    prompt, _ = running.ask(seed=5)
    wrong = replace(prompt, token_ids=prompt.token_ids[:-1])
    with pytest.raises(QuestionDropped) as dropped:
        await running.engine.generate("wrong", wrong, 1, Sampling(1.0, 1))
    assert dropped.value.drop.reason is DropReason.PROMPT_INVALID


async def test_a_prompt_without_media_is_answered(running: RunningEngine) -> None:
    ids = np.array(running.oracle.processor.tokenizer("What is red?")["input_ids"], np.int32)
    rollouts = await running.engine.generate("blind", Prompt("What is red?", ids, ids, ()), 2, Sampling(1.0, 4))
    assert [len(rollout.versions) > 0 for rollout in rollouts] == [True, True]
