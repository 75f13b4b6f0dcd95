"""videorl demo: the whole way on the embedded playground, on two CPU cores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option("--out", help="Where everything is written.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0, help="Of the clips, the questions and the run.")] = 0,
) -> None:
    """Make small videos and a tiny model, train it with asynchronous GRPO, and say where everything lies."""
    from videorl.playground.demo import run_demo

    run_demo(out, seed)
