"""videorl eval: a model on its benchmarks, or a run's checkpoints as they complete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from videorl.errors import UserError, VideorlError

if TYPE_CHECKING:
    from videorl.cluster.evaluate import Evaluator
    from videorl.config import Config
    from videorl.eval.benchmarks import Benchmark
    from videorl.eval.predictions import Prediction
    from videorl.eval.report import Report


class Form(StrEnum):
    train = "train"
    direct = "direct"
    official = "official"


def evaluate(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A model folder, RUN, RUN@STEP or RUN@keeper.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY.SUB=VALUE]...", help="Settings, as in a run's config.")
    ] = None,
    benchmark: Annotated[
        list[str] | None, typer.Option(metavar="NAME=PATH", help="A question file of any known format; repeatable.")
    ] = None,
    media_root: Annotated[Path | None, typer.Option(help="Where the videos lie; unset: beside each file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where predictions and report go.")] = None,
    config_file: Annotated[
        Path | None, typer.Option("--config", help="Settings; unset: those the model was trained under, if it says.")
    ] = None,
    prompt: Annotated[Form, typer.Option(help="Training's prompt, a bare one, or each benchmark's own.")] = Form.train,
    blind: Annotated[bool, typer.Option("--blind", help="Also without frames.")] = False,
    shuffle_frames: Annotated[bool, typer.Option("--shuffle-frames", help="Also with frames out of order.")] = False,
    permute_options: Annotated[bool, typer.Option("--permute-options", help="Also with options permuted.")] = False,
    all_rows: Annotated[bool, typer.Option("--all-rows", help="Switch the benchmarks' own filters off.")] = False,
    subtitles: Annotated[bool, typer.Option("--subtitles", help="Show the subtitles found at the media root.")] = False,
    watch: Annotated[Path | None, typer.Option(metavar="RUN", help="Evaluate this run's checkpoints.")] = None,
    every: Annotated[int | None, typer.Option(min=1, help="Fit steps between evaluations of a run.")] = None,
    validation: Annotated[
        str | None, typer.Option(metavar="NAME=PATH", help="The file that chooses the keeper of a run.")
    ] = None,
    patience: Annotated[float, typer.Option(min=0, help="Seconds that a watched run may be silent.")] = 3_600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Evaluate a model, or with --watch the checkpoints of a run. A killed evaluation goes on where it stopped.

    Exit code 1: some rows failed, and the report is incomplete.
    """
    flags = {"blind": blind, "shuffle-frames": shuffle_frames, "permute-options": permute_options}
    probes = [name for name, wanted in flags.items() if wanted]
    questions = _Questions(tuple(benchmark or ()), media_root, all_rows, prompt.value, subtitles, tuple(probes))
    if watch is None:
        _refuse("without --watch", {"--every": every, "--validation": validation})
        _evaluate_model(model, overrides or [], questions, out, config_file, as_json)
        return
    _refuse("with --watch: reports go to RUN/eval, settings come from the run", {"--out": out, "--config": config_file})
    settings = [*([model] if model else []), *(overrides or [])]
    _watch_run(watch, settings, questions, every, validation, patience, as_json)


def _refuse(when: str, options: Mapping[str, object]) -> None:
    """What would have no effect is not passed over in silence."""
    if given := [name for name, value in options.items() if value is not None]:
        raise UserError(f"{', '.join(given)} means nothing {when}")


@dataclass(slots=True, frozen=True)
class _Questions:
    """What is asked, as given on the command line."""

    pairs: tuple[str, ...]
    media_root: Path | None
    all_rows: bool
    form: str
    subtitles: bool
    probes: tuple[str, ...]

    def benchmarks(self, config: Config) -> list[Benchmark]:
        from videorl.eval.benchmarks import parse_benchmarks

        named = parse_benchmarks(self.pairs) or config.eval.benchmarks
        if not named:
            raise UserError("no benchmark: give --benchmark NAME=PATH, or eval.benchmarks in the config")
        return [self.load(name, path, config) for name, path in named.items()]

    def load(self, name: str, path: Path, config: Config) -> Benchmark:
        from videorl.eval.benchmarks import load_benchmark

        loaded = load_benchmark(
            name, path, media_root=self.root(config), remap=config.data.remap, all_rows=self.all_rows
        )
        _say("; ".join([f"{name}: {loaded.rows} rows of {path}", *loaded.filters]))
        return loaded

    def evaluator(self, config: Config) -> Evaluator:
        from videorl.cluster.evaluate import Evaluator

        root = self.root(config)
        if self.subtitles and root is None:
            raise UserError("--subtitles needs --media-root: the .srt files are looked for there")
        if config.data.prompt == "as-given" and self.form == "train" and {"blind", "permute-options"} & {*self.probes}:
            raise UserError("--blind and --permute-options cannot change a row's own prompt; add --prompt direct")
        return Evaluator(config, self.form, root if self.subtitles else None, self.probes)  # type: ignore[arg-type]

    def root(self, config: Config) -> Path | None:
        return self.media_root or config.eval.media_root


def _evaluate_model(
    model: str | None, overrides: list[str], questions: _Questions, out: Path | None, config: Path | None, as_json: bool
) -> None:
    from videorl.eval.report_file import report_json
    from videorl.eval.run_folder import find_model
    from videorl.eval.setup import evaluation_config

    if model is None or out is None:
        raise UserError("give MODEL and --out DIR, or --watch RUN")
    choice = find_model(model)
    resolved = evaluation_config(choice, out, config_file=config, overrides=overrides)
    evaluator, benchmarks = questions.evaluator(resolved), questions.benchmarks(resolved)

    async def evaluate() -> Report:
        async with evaluator:
            with _progress() as (pending, progress):
                work = {out: benchmarks}
                (report,) = await evaluator.evaluate(
                    choice.folder, work, name=model, pending=pending, progress=progress
                )
                return report

    report = asyncio.run(evaluate())
    typer.echo(json.dumps(report_json(report), ensure_ascii=False, indent=2) if as_json else _shown(report))
    _say(f"{out / 'report.md'}")
    if not report.complete:
        failed = sum(column.failed for column in report.benchmarks.values())
        raise VideorlError(f"incomplete: {failed} rows failed (counted as wrong); run it again to retry them")


def _watch_run(
    path: Path,
    overrides: list[str],
    questions: _Questions,
    every: int | None,
    validation: str | None,
    patience: float,
    as_json: bool,
) -> None:
    from videorl.eval.benchmarks import parse_benchmarks
    from videorl.eval.run_folder import ModelChoice, RunFolder
    from videorl.eval.setup import evaluation_config
    from videorl.eval.watcher import Watcher

    run = RunFolder(path)
    base = run.config().model.path
    config = evaluation_config(ModelChoice(base, run, 0), run.evaluations, overrides=overrides)
    evaluator, benchmarks = questions.evaluator(config), questions.benchmarks(config)
    held_out = [
        questions.load(name, file, config)
        for name, file in parse_benchmarks([validation] if validation else [], "--validation").items()
    ]

    async def evaluate_step(model: Path, out: Path) -> bool:
        work: dict[Path, Sequence[Benchmark]] = {out: benchmarks}
        if held_out:
            work[out / "validation"] = held_out
        reports = await evaluator.evaluate(model, work, name=f"{path}@{int(out.name.removeprefix('step-'))}")
        _say(_line(reports[0]))
        return all(report.complete for report in reports)

    async def watch_run() -> None:
        async with evaluator:
            await Watcher(run, every or config.eval.every, base, evaluate_step, _say, patience, validation).watch()

    asyncio.run(watch_run())
    typer.echo((run.evaluations / f"trajectory.{'json' if as_json else 'md'}").read_text(encoding="utf-8").rstrip())


def _shown(report: Report) -> str:
    """What a terminal shows: everything above the breakdowns."""
    from videorl.eval.markdown import render

    return render(report).partition("\n## ")[0].rstrip()


def _line(report: Report) -> str:
    accuracies = ", ".join(f"{name} {b.accuracy:.4f}" for name, b in report.benchmarks.items())
    return f"{report.model}: mean {report.macro_mean:.4f} ({accuracies})"


@contextmanager
def _progress() -> Iterator[tuple[Callable[[int], None], Callable[[Prediction], None]]]:
    """A bar on standard error: the rows that are left, and the accuracy of those that were asked."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("starting")
        asked = right = 0

        def pending(rows: int) -> None:
            bar.update(task, total=rows, description="asking" if rows else "all rows are answered already")

        def advance(prediction: Prediction) -> None:
            nonlocal asked, right
            asked, right = asked + 1, right + prediction.correct
            bar.update(task, advance=1, description=f"accuracy so far {right / asked:.3f}")

        yield pending, advance


def _say(line: str) -> None:
    typer.echo(line, err=True)
