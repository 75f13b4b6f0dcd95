"""videorl bench: side-by-side measurements, each a script of benchmarks/ that prints one JSON document."""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from videorl.errors import UserError, VideorlError

_SCRIPTS = Path("benchmarks")
_UNATTENDED = ("branches", "data_check", "evaluation", "frames")  # the others need an environment of their own or hours


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Which ones; default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run benchmarks beside what they are compared with, on this machine."""
    chosen = names or [name for name in _UNATTENDED if _script(name).is_file()]
    if not _SCRIPTS.is_dir():
        raise UserError(f"{_SCRIPTS}/: no such folder here; run bench in a checkout of videorl")
    for name in chosen:
        _check(name)
    results = []
    for name in chosen:
        results += _run(name)
        if not as_json:
            for result in results[-1:]:
                typer.echo(_line(result))
    if as_json:
        typer.echo(json.dumps(results, indent=2))


def _script(name: str) -> Path:
    return _SCRIPTS / f"{name}.py"


def _check(name: str) -> None:
    known = sorted(path.stem for path in _SCRIPTS.glob("*.py"))
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        raise UserError(
            f"unknown benchmark {name!r}; " + (f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}")
        )


def _run(name: str) -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, str(_script(name))], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise VideorlError(f"benchmark {name} failed: {said[-1] if said else f'exit code {done.returncode}'}")
    document = json.loads(done.stdout)
    return document if isinstance(document, list) else [document]


def _line(result: dict[str, Any]) -> str:
    against = f"{result['ours']:.4g} against {result['theirs']:.4g} {result['unit']}"
    return f"{result['name']}: {against}: {result['ratio']:.2f}x"
