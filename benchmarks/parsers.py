"""The same responses read by other people's answer parsers: lmms-eval's and VLMEvalKit's beside ours.

Their packages go into an environment of their own, without their dependencies; of their files only the parsing
functions are run. Every row on which one of them reads another letter is listed with the reason.

    python benchmarks/parsers.py OUT/predictions.jsonl [...] [--environment DIR] [--json]
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PACKAGES = ("lmms-eval==0.7.3", "ms-vlmeval==0.0.20", "numpy")  # the second is VLMEvalKit as it is published
ALLOWED_IMPORTS = frozenset({"re", "random", "string", "copy", "os", "collections", "typing", "numpy"})

GUESS = "it guesses at random where it finds nothing"

Parser = Callable[[str, Sequence[str]], str | None]


@dataclass(frozen=True)
class Source:
    """One parser: a function in an installed file, and how it wants the options."""

    file: str
    function: str
    takes: str  # beside the response: "text" (nothing), "letters", "mapping" or "letters and mapping"


PARSERS = {
    "lmms-eval videomme": Source("lmms_eval/tasks/_task_utils/mcq_extract.py", "extract_mcq_answer", "letters"),
    "lmms-eval video_holmes": Source(
        "lmms_eval/tasks/video_holmes/utils.py", "parse_multi_choice_response", "letters and mapping"
    ),
    "lmms-eval perceptioncomp": Source(
        "lmms_eval/tasks/perceptioncomp/utils.py", "parse_multi_choice_response", "letters and mapping"
    ),
    "VLMEvalKit videomme": Source("vlmeval/dataset/utils/videomme.py", "extract_characters_regex", "text"),
    "VLMEvalKit videoholmes": Source("vlmeval/dataset/utils/videoholmes.py", "extract_option", "text"),
    "VLMEvalKit can_infer": Source("vlmeval/utils/matching_util.py", "can_infer", "mapping"),
}


# ── in their environment ────────────────────────────────────────────────────────────────────────────────────────────


def load_parser(source: Source) -> Parser:
    """The function, with its file's functions, constants and plain imports, and nothing else of the package."""
    path = next(Path(p) / source.file for p in sys.path if (Path(p) / source.file).is_file())
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kept = [n for n in tree.body if isinstance(n, ast.FunctionDef) or _is_plain_import(n) or _is_constant(n)]
    for node in kept:
        if isinstance(node, ast.FunctionDef):  # annotations and decorators name what is not imported
            node.returns, node.decorator_list = None, []
            for argument in node.args.args:
                argument.annotation = None
    space: dict[str, Any] = {}
    exec(compile(ast.Module(kept, []), str(path), "exec"), space)
    function = space[source.function]

    def parse(text: str, options: Sequence[str]) -> str | None:
        mapping = {chr(ord("A") + i): option for i, option in enumerate(options)}
        letters = list(mapping)
        arguments = {
            "text": (),
            "letters": (letters,),
            "mapping": (mapping,),
            "letters and mapping": (letters, mapping),
        }
        found = function(text, *arguments[source.takes])
        return found if isinstance(found, str) and found in letters else None

    return parse


def _is_plain_import(node: ast.stmt) -> bool:
    names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return bool(names) and all(name.split(".")[0] in ALLOWED_IMPORTS for name in names)


def _is_constant(node: ast.stmt) -> bool:
    try:
        return isinstance(node, ast.Assign) and ast.literal_eval(node.value) is not None
    except ValueError:
        return False


def work() -> None:
    """Read [{text, options}] from standard input, write {parser: [[letter or null, guessed]]} to standard output."""
    rows = json.load(sys.stdin)
    found: dict[str, list[tuple[str | None, bool]]] = {}
    for name, source in PARSERS.items():
        parse = load_parser(source)
        found[name] = [_parse_repeatedly(parse, row["text"], row["options"]) for row in rows]
    json.dump(found, sys.stdout)


def _parse_repeatedly(parse: Parser, text: str, options: Sequence[str]) -> tuple[str | None, bool]:
    """The letter, and whether it comes from a random number."""
    letters = []
    for seed in range(8):
        random.seed(seed)
        letters.append(parse(text, options))
    return letters[0], len(set(letters)) > 1


# ── in ours ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Difference:
    """A row that a parser reads otherwise than we do."""

    parser: str
    id: str
    ours: str | None
    theirs: str | None
    right: str
    reason: str
    end_of_response: str


def prepare_environment(folder: Path) -> Path:
    """The interpreter of an environment that holds their packages."""
    python = folder / "bin" / "python"
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", *PACKAGES]
        subprocess.run(install, check=True)
    return python


def ask(python: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[str | None, bool]]]:
    command = [str(python), os.path.abspath(__file__), "--work"]
    return json.loads(
        subprocess.run(command, input=json.dumps(rows), text=True, capture_output=True, check=True).stdout
    )


def compare(files: Sequence[Path], python: Path) -> dict[str, Any]:
    """Accuracy by every parser over all rows, and the differences from ours."""
    from videorl.eval.predictions import read_predictions
    from videorl.rewards.answers import read_response

    rows = [p for file in files for p in read_predictions(file)]
    texts = [p.response or "" for p in rows]
    tails = [read_response(text, thinks=False).tail for text in texts]
    whole = ask(python, [{"text": text, "options": p.options} for text, p in zip(texts, rows, strict=True)])
    ends = ask(python, [{"text": tail, "options": p.options} for tail, p in zip(tails, rows, strict=True)])
    differences = [
        Difference(
            name,
            p.id,
            p.choice,
            theirs,
            p.answer,
            GUESS if guessed else _reason(p.choice, theirs, at_end, tail),
            tail[-80:],
        )
        for name, letters in whole.items()
        for p, (theirs, guessed), (at_end, _), tail in zip(rows, letters, ends[name], tails, strict=True)
        if guessed or theirs != p.choice
    ]
    accuracy = {"ours": sum(p.correct for p in rows) / len(rows)}
    for name, letters in whole.items():
        accuracy[name] = sum(letter == p.answer for p, (letter, _) in zip(rows, letters, strict=True)) / len(rows)
    counts = Counter((d.parser, d.reason) for d in differences)
    return {
        "rows": len(rows),
        "accuracy": accuracy,
        "reasons": [{"parser": parser, "reason": reason, "rows": n} for (parser, reason), n in counts.most_common()],
        "differences": [asdict(d) for d in differences],
    }


def _reason(ours: str | None, theirs: str | None, theirs_at_end: str | None, tail: str) -> str:
    if not tail:
        return "it reads reasoning that never came to an answer"
    if theirs_at_end == ours:
        return "it also reads the reasoning"
    if ours is None:
        return "it takes a letter or a part of an option's text where nothing is declared"
    if theirs is None:
        return "it finds no letter in an answer that declares one"
    if theirs != theirs_at_end:
        return "it reads the reasoning, and does not read the answer either"
    return "it takes another letter of the answer than the one declared"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=Path, nargs="*")
    parser.add_argument("--environment", type=Path, default=Path("build/parsers"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return
    if not options.predictions:
        parser.error("give predictions.jsonl files of videorl eval")
    found = compare(options.predictions, prepare_environment(options.environment))
    if options.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    for name, accuracy in found["accuracy"].items():
        print(f"{accuracy:.4f}  {name}")
    for d in found["differences"]:
        print(f"{d['parser']}: {d['id']}: ours {d['ours']}, theirs {d['theirs']}, right {d['right']}: {d['reason']}")
        print(f"    …{d['end_of_response']!r}")


if __name__ == "__main__":
    main()
