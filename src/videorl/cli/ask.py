"""videorl ask: one question about one video, answered with the reasoning and the letter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from videorl.errors import QuestionDropped, UserError

if TYPE_CHECKING:
    from videorl.config import Config
    from videorl.types import Question, Rollout


def ask(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model folder, RUN, RUN@STEP or RUN@keeper.")],
    video: Annotated[Path, typer.Argument(metavar="VIDEO", help="A video, or a folder of frames.")],
    question: Annotated[str, typer.Argument(metavar="QUESTION")],
    options: Annotated[
        list[str], typer.Option("--options", metavar='"A. …" "B. …"', help="What there is to choose from.")
    ],
    more_options: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,  # all but the first after --options
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY.SUB=VALUE", help="A setting, as in a run's config.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Ask a model about a video."""
    from videorl.eval.run_folder import find_model
    from videorl.eval.setup import evaluation_config
    from videorl.rewards.answers import read_choice, read_response

    asked = _question(video, question, [*options, *(more_options or [])])
    choice = find_model(model)
    with TemporaryDirectory(prefix="videorl-ask-") as scratch:
        store = f"data.store={json.dumps(scratch)}"
        config = evaluation_config(choice, Path(scratch), overrides=[store, *(overrides or [])])
        try:
            rollout, thinks = asyncio.run(_answer(config, choice.folder, asked))
        except QuestionDropped as dropped:
            raise UserError(dropped.drop.detail) from None
    letter = read_choice(read_response(rollout.text, thinks=thinks).tail, asked.options)
    if as_json:
        tree = {"choice": letter, "response": rollout.text, "finish_reason": rollout.finish_reason}
        typer.echo(json.dumps(tree, ensure_ascii=False))
        return
    typer.echo(rollout.text.strip())
    typer.echo(f"\nAnswer: {letter}. {asked.options[ord(letter) - ord('A')]}" if letter else "\nNo answer.")


def _question(video: Path, text: str, options: Sequence[str]) -> Question:
    from videorl.data.options import read_options
    from videorl.types import Media, Question

    if not video.exists():
        raise UserError(f"{video}: no such file")
    try:
        read = read_options(list(options))
    except QuestionDropped as dropped:
        raise UserError(f"--options: {dropped.drop.detail}") from None
    media = (Media("video", str(video.absolute())),)
    return Question("ask", "multiple_choice", text, read, answer=0, media=media, source="ask")


async def _answer(config: Config, model: Path, question: Question) -> tuple[Rollout, bool]:
    """One greedy response (or as the config samples), from an engine in this process."""
    from videorl.data.prompt import PromptBuilder
    from videorl.data.store import FrameStore
    from videorl.data.templates import template_named
    from videorl.eval.settings import EvalSettings, replica_settings
    from videorl.rollout.vllm_engine import VllmEngine

    name = "auto" if config.data.prompt == "as-given" else config.data.prompt
    prompts = PromptBuilder(model, template_named(name, config.reward.name), config.data.max_prompt_tokens)
    store = FrameStore.from_config(config.data, config.store_dir)
    try:
        refs = [store.reference(medium) for medium in question.media]
        prompt = prompts.build(question, [(ref, store.load(ref)) for ref in refs])
        engine = await VllmEngine.start(replica_settings(config, model)[0], store, "ask")
        try:
            sampling = EvalSettings.of_config(config, "train", subtitles=False).sampling
            (rollout,) = await engine.generate("ask", prompt, 1, sampling)
        finally:
            await engine.close()
    finally:
        store.close()
    return rollout, prompt.thinks
