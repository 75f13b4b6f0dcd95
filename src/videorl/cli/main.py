"""The command line. Every command's module imports what is heavy inside the command, so that help comes at once.

Exit codes: 0 done; 2 the user's input is at fault, in one line; 1 anything else; 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from videorl.cli.ask import ask
from videorl.cli.bench import bench
from videorl.cli.card import card
from videorl.cli.compare import compare
from videorl.cli.data import app as data_app
from videorl.cli.demo import demo
from videorl.cli.doctor import doctor
from videorl.cli.evaluate import evaluate
from videorl.cli.export import export
from videorl.cli.frames import frames
from videorl.cli.plan import plan
from videorl.cli.playground import app as playground_app
from videorl.cli.score import score
from videorl.cli.sft import sft
from videorl.cli.train import train
from videorl.cli.view import view
from videorl.errors import VideorlError

app = typer.Typer(
    name="videorl",
    help="Post-train video language models with fully-asynchronous reinforcement learning.",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(train)
app.command()(sft)
app.command("eval")(evaluate)
app.command()(compare)
app.command()(export)
app.command()(card)
app.command()(ask)
app.command()(plan)
app.command()(score)
app.command()(frames)
app.command()(view)
app.command()(doctor)
app.command()(bench)
app.add_typer(data_app, name="data")
app.add_typer(playground_app, name="playground")


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Post-train video language models with fully-asynchronous reinforcement learning."""
    if version:
        from importlib import metadata

        typer.echo(metadata.version("videorl"))
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit()


def main() -> None:
    """The entry point of the `videorl` command."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # JSON is UTF-8 whatever the locale; half a surrogate pair is \\udXXX
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; a fault that a person can mend is one line on standard error."""
    try:
        code = app(list(arguments), prog_name="videorl", standalone_mode=False)
        if sys.stdout is not None:  # closed by whoever started us
            sys.stdout.flush()
    except VideorlError as error:
        return _say(error, error.exit_code)
    except TyperException as error:  # a wrong command line
        return _say(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _say("interrupted", 130)
    except BrokenPipeError:
        # Whoever read our output has gone (`videorl score … | head`): nothing is left to say, at exit neither.
        _silence_output()
        return 1
    except OSError as error:  # a full disk, a folder that may not be read: the machine's fault, not a bug
        _silence_output()
        where = f"{error.filename}: " if error.filename else ""
        return _say(_current_directory_gone() or f"{where}{error.strerror or error}", 1)
    return code if isinstance(code, int) else 0


def _current_directory_gone() -> str | None:
    """The system's own message has no name in it."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return f"the current directory {os.environ.get('PWD', '')} has been deleted; go to one that exists"
    return None


def _silence_output() -> None:
    """What is still buffered has nowhere to go, and Python would try again at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(fault: VideorlError | str, code: int) -> int:
    notes = getattr(fault, "__notes__", [])
    print("videorl:", " ".join("; ".join([str(fault), *notes]).split()), file=sys.stderr)
    return code
