"""videorl score: what the responses in a file are worth, by the function that trains and evaluates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from videorl.errors import QuestionDropped, UserError, unwritten


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
    with _lines_to(out) as write:
        for tree in _scored(file, reward):
            write(json.dumps(tree, ensure_ascii=False))


@contextmanager
def _lines_to(out: Path | None) -> Iterator[Callable[[str], object]]:
    """Takes lines. A file appears when the last has come; what is no file (/dev/stdout) gets each at once."""
    if out is None:
        yield typer.echo
        return
    part = out if out.exists() and not out.is_file() else out.with_name(out.name + ".part")
    try:
        with part.open("w", encoding="utf-8", errors="backslashreplace") as file:  # half a surrogate pair as \udXXX
            yield lambda line: file.write(line + "\n")
        if part != out:
            part.replace(out)
    except OSError as error:
        raise unwritten(out, error) from None
    finally:
        if part != out:
            with suppress(OSError):
                part.unlink()


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
    from videorl.data.fields import unrepeated

    try:
        with file.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    tree = json.loads(line, parse_constant=_refuse, object_pairs_hook=unrepeated)
                except (ValueError, RecursionError) as error:
                    raise UserError(f"{file}:{number}: not valid JSON: {error}") from None
                if not isinstance(tree, dict):
                    raise UserError(f"{file}:{number}: holds {type(tree).__name__}, not an object")
                yield number, tree
    except FileNotFoundError:
        raise UserError(f"{file}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read: {error}") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value; write null")


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
