"""videorl score: what the responses in a file are worth, by the function that trains and evaluates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from videorl.errors import QuestionDropped, UserError


class Profile(StrEnum):
    letter = "letter"
    vero = "vero"


def score(
    file: Annotated[Path, typer.Argument(help='Lines of {"response", "options", "answer"}.')],
    profile: Annotated[Profile, typer.Option(help="Which format the prompt asked for.")] = Profile.letter,
    out: Annotated[Path | None, typer.Option(help="Write there instead of on standard output.")] = None,
    format_weight: Annotated[float, typer.Option(min=0, max=1, help="The format's share of the score.")] = 0.2,
    min_think_chars: Annotated[int, typer.Option(min=0, help="The shortest reasoning that is well formed.")] = 100,
) -> None:
    """Score the responses in a JSONL file: each line comes out with choice, accuracy, format and score.

    "answer" is a letter, an option's text or a number from 0. A line may say "thinks": true where its prompt already
    opened <think>.
    """
    from videorl.rewards.reward import MultipleChoice

    reward = MultipleChoice(profile.value, format_weight, min_think_chars)
    part = out.with_name(out.name + ".part") if out else None
    try:
        with part.open("w", encoding="utf-8") if part else nullcontext() as sink:
            for tree in _scored(file, reward):
                line = json.dumps(tree, ensure_ascii=False)
                if sink:
                    sink.write(line + "\n")
                else:
                    typer.echo(line)
        if part and out:
            part.replace(out)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise UserError(f"{out}: cannot be written: {error.strerror or error}") from None
    finally:
        if part:
            part.unlink(missing_ok=True)


def _scored(file: Path, reward: Any) -> Iterator[dict[str, Any]]:
    from videorl.rewards.reward import Unscored

    for number, tree in _lines(file):
        question, response, thinks = _read(tree, f"{file}:{number}")
        verdict = reward(question, response, thinks=thinks)
        if isinstance(verdict, Unscored):
            raise UserError(f"{file}:{number}: {verdict.reason}")
        yield tree | {
            "choice": verdict.choice,
            "accuracy": verdict.accuracy,
            "format": verdict.format,
            "score": verdict.score,
        }


def _lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with file.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    tree = json.loads(line)
                except ValueError as error:
                    raise UserError(f"{file}:{number}: not valid JSON: {error}") from None
                if not isinstance(tree, dict):
                    raise UserError(f"{file}:{number}: holds {type(tree).__name__}, not an object")
                yield number, tree
    except FileNotFoundError:
        raise UserError(f"{file}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read: {error}") from None


def _read(tree: dict[str, Any], where: str) -> tuple[Any, str, bool]:
    from videorl.data.options import read_options, resolve_answer
    from videorl.types import Question

    missing = [key for key in ("response", "options", "answer") if key not in tree]
    if missing:
        raise UserError(f'{where}: {", ".join(missing)} is missing; a line has "response", "options" and "answer"')
    if not isinstance(tree["response"], str):
        raise UserError(f"{where}: response is {type(tree['response']).__name__}, not a string")
    if not isinstance(tree.get("thinks", False), bool):
        raise UserError(f"{where}: thinks is {tree['thinks']!r}, not true or false")
    try:
        options = read_options(tree["options"])
        answer = resolve_answer(tree["answer"], options)
    except QuestionDropped as dropped:
        raise UserError(f"{where}: {dropped.drop.detail}") from None
    question = Question(where, "multiple_choice", "", options, answer, media=(), source=where)
    return question, tree["response"], tree.get("thinks", False)
