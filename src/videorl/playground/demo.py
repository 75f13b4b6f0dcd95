"""The main job at playground size: videos, a tiny Qwen3-VL, asynchronous GRPO, and what it gained.

    make videos ─► evaluate the base ─► train ─► evaluate the checkpoints ─► table, plot

What is done is not done again: a demo that was stopped goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import tomli_w

from videorl.cluster.evaluate import Evaluator
from videorl.cluster.run import run
from videorl.config import Config, load_config
from videorl.errors import UserError
from videorl.eval.benchmarks import load_benchmark
from videorl.eval.report_file import read_report
from videorl.eval.run_folder import RunFolder
from videorl.eval.watcher import Watcher
from videorl.orchestration.files import write_atomically
from videorl.playground import preset
from videorl.playground.gain import gain_table
from videorl.playground.world import make_playground

PATIENCE = 60.0  # seconds; the run that is watched has finished


def run_demo(out: Path, seed: int = 0, say: Callable[[str], None] = print) -> Path:
    """Everything under `out`. Returns the run directory.

    Raises:
        VideorlError: a part could not finish, in one line.
    """
    config_file = out / "demo.toml"
    refuse_another_seed(config_file, seed)
    say("Making the playground's clips, questions and base model")
    world = make_playground(out / "playground", seed)
    write_atomically(config_file, tomli_w.dumps(preset.grpo(world, out / "run", seed)))
    config = load_config(config_file)
    folder = RunFolder(config.run.dir)
    say("Evaluating the base on three held-out benchmarks")
    asyncio.run(evaluate_base(config))
    say(f"Training: {config.run.max_steps} fit steps of {config.trajectories_per_step} responses")
    run(config)
    say("Evaluating the checkpoints")
    asyncio.run(watch(config, say))
    say(summary(folder, config_file))
    return folder.path


def refuse_another_seed(config_file: Path, seed: int) -> None:
    """A run goes on under its own seed only; making another one's clips would take from it those that it asks about.

    Raises:
        UserError: the config of a run that was begun names another seed.
    """
    if config_file.exists() and (then := load_config(config_file).run.seed) != seed:
        raise UserError(
            f"{config_file.parent}: was begun with seed {then}: go on with --seed {then}, or choose another folder"
        )


async def watch(config: Config, say: Callable[[str], None]) -> None:
    """Evaluate the checkpoints of a finished run, and write its trajectory and keeper."""
    folder = RunFolder(config.run.dir)
    async with evaluator(config) as ready:

        async def evaluate_step(model: Path, out: Path) -> bool:
            return await evaluate(ready, model, out)

        await Watcher(folder, config.eval.every, config.model.path, evaluate_step, say, PATIENCE).watch()


async def evaluate_base(config: Config) -> None:
    async with evaluator(config) as ready:
        await evaluate(ready, config.model.path, RunFolder(config.run.dir).evaluation(0))


def evaluator(config: Config) -> Evaluator:
    """Asks with and without the videos."""
    return Evaluator(config, probes=("blind",))


async def evaluate(ready: Evaluator, model: Path, out: Path) -> bool:
    """Ask a model the benchmarks of the config. False: some row failed."""
    settings = ready.config.eval
    benchmarks = [
        load_benchmark(name, path, media_root=settings.media_root) for name, path in settings.benchmarks.items()
    ]
    (report,) = await ready.evaluate(model, {out: benchmarks}, name=out.name)
    return report.complete


def summary(folder: RunFolder, config_file: Path) -> str:
    """The last screen: what was gained, and where everything lies."""
    last = folder.steps()[-1]
    table = gain_table(read_report(folder.evaluation(0)), read_report(folder.evaluation(last)))
    files = {
        "config": config_file,
        "run": folder.path,
        "trained model": folder.model(last),
        "trajectory": folder.evaluations / "trajectory.md",
        "plot": folder.evaluations / "trajectory.png",
        "responses": folder.evaluation(last),
    }
    lines = "\n".join(f"  {name:14} {path}" for name, path in files.items())
    trajectory = (folder.evaluations / "trajectory.md").read_text(encoding="utf-8")
    return f"\nFit step {last} beside the base, greedy, accuracy:\n\n{table}\n\n{trajectory}\n{lines}"
