"""Do base and trained model use the video? Finished demos, asked again with every clip mid-grey.

    python benchmarks/blank_frames.py OUT DEMO…

Accuracy must lie at chance: the share that guessing among a row's options gets right.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from videorl.cluster.evaluate import Evaluator
from videorl.config import Config, load_config
from videorl.eval.markdown import table
from videorl.eval.predictions import read_predictions
from videorl.eval.report_file import read_report
from videorl.eval.run_folder import RunFolder
from videorl.eval.statistics import macro_interval
from videorl.playground.demo import evaluate
from videorl.playground.videos import blank_clip, write_mp4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("demos", type=Path, nargs="+")
    arguments = parser.parse_args()
    rows = [row for demo in arguments.demos for row in asyncio.run(asked(demo, arguments.out / demo.resolve().name))]
    print(table(["demo", "fit step", "rows", "chance", "blank frames (95 % interval)"], rows))


async def asked(demo: Path, out: Path) -> list[list[str]]:
    run = RunFolder(demo / "run")
    last = run.steps()[-1]
    models = {0: run.config().model.path, last: run.model(last)}
    async with Evaluator(blank_config(demo, out)) as ready:
        for step, model in models.items():
            await evaluate(ready, model, out / f"step-{step}")
    return [[demo.name, str(step), *outcome(out / f"step-{step}")] for step in models]


def blank_config(demo: Path, out: Path) -> Config:
    """The demo's own settings, with its clips' names on copies of one grey clip."""
    videos = out / "videos"
    write_mp4(out / "blank.mp4", blank_clip())
    videos.mkdir(exist_ok=True)
    for name in clip_names(demo):
        (videos / name).unlink(missing_ok=True)
        (videos / name).hardlink_to(out / "blank.mp4")
    return load_config(demo / "demo.toml", [f'eval.media_root="{out.resolve()}"', f'run.dir="{out.resolve()}"'])


def clip_names(demo: Path) -> Iterator[str]:
    return (clip.name for clip in (demo / "playground" / "videos").glob("*.mp4") if not clip.name.startswith("train-"))


def outcome(out: Path) -> list[str]:
    """Rows, chance, and the macro mean with its interval."""
    predictions = read_predictions(out / "predictions.jsonl")
    columns = read_report(out).benchmarks
    chance = [np.mean([1 / len(p.options) for p in predictions if p.benchmark == name]) for name in columns]
    mean = np.mean([column.accuracy for column in columns.values()])
    interval = macro_interval([(column.correct, column.rows) for column in columns.values()])
    return [
        str(len(predictions)),
        f"{np.mean(chance):.3f}",
        f"{mean:.3f} ({interval.low:.3f} to {interval.high:.3f})",
    ]


if __name__ == "__main__":
    main()
