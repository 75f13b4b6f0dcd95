"""The study's arms at playground size: what changes learning, one factor at a time, and two controls.

Every arm trains on the same number of responses from the same files with three seeds; its FINAL checkpoint is judged
greedily on the three held-out benchmarks, with and without videos. An arm that is done is not done again, so the
script can be stopped and started.

    python benchmarks/learning.py OUT [--arms default sync …] [--seeds 0 1 2] [--unbiased FOLDER]

`--unbiased` names a base without the systematic errors: the `focus` stage of `videorl playground base FOLDER`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from videorl.cluster.run import run, run_supervised
from videorl.config import Config, build_config
from videorl.eval.markdown import table
from videorl.eval.report import Report
from videorl.eval.report_file import read_report
from videorl.eval.run_folder import RunFolder
from videorl.playground import preset
from videorl.playground.base_model import Stage, stage_config, write_stage
from videorl.playground.demo import evaluate, evaluator
from videorl.playground.gain import by_family
from videorl.playground.questions import FAMILIES
from videorl.playground.records import any_options, draw_records
from videorl.playground.traces import careful_response
from videorl.playground.world import make_playground


@dataclass(slots=True, frozen=True)
class Arm:
    """One setting of one factor."""

    what: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    base: str = "base"


STEPS = 10  # of 256 responses
WARM_START = Stage(
    "warm-start", lambda item, _: careful_response(item), True, updates=8, prompts_per_update=32, lr=1e-4
)

ARMS = {
    "default": Arm("cold start, staleness 0.4, n = 8"),
    "warm": Arm("SFT warm start of 8 updates on careful traces", base="warm"),
    "sync": Arm("staleness 0", {"async.staleness": 0.0}),
    "stale": Arm("staleness 1.0", {"async.staleness": 1.0}),
    "n4": Arm("n = 4, twice the questions", {"algo.group_size": 4, "trainer.prompts_per_update": 32}),
    "n16": Arm("n = 16, half the questions", {"algo.group_size": 16, "trainer.prompts_per_update": 8}),
    "unbiased": Arm("a base without systematic errors", base="unbiased"),
}


def main() -> None:
    arguments = _arguments()
    out: Path = arguments.out
    world = make_playground(out / "playground", seed=0)
    bases = {"base": world / "base", "unbiased": arguments.unbiased}
    if "warm" in arguments.arms:
        bases["warm"] = warm_start(out / "warm", world / "base")
    starts: dict[str, Report] = {}
    finals: dict[str, list[Report]] = {}
    trainings: dict[str, Training] = {}
    passes: list[float] = []
    for name in arguments.arms:
        arm = ARMS[name]
        base = bases[arm.base]
        if base is None:
            print(f"{name}: left out, it needs --unbiased", flush=True)
            continue
        configs = [config_of(arm, world, base, out / f"{name}-{seed}", seed) for seed in arguments.seeds]
        for config in configs:
            if RunFolder(config.run.dir).state() != "finished":
                run(config)
        starts[arm.base], *finals[name] = asyncio.run(evaluated(configs, base, out / "start" / arm.base))
        if arm.base == "base" and configs[0].algo.group_size == 8:
            passes += [pass_at_n(config.run.dir) for config in configs]
        trainings[name] = training([config.run.dir for config in configs])
        write_results(out, starts, finals, trainings, passes)
    print((out / "results.md").read_text(encoding="utf-8"))


def config_of(arm: Arm, world: Path, base: Path, run_dir: Path, seed: int) -> Config:
    overrides = [f"{key}={value}" for key, value in arm.settings.items()]
    overrides += [f'model.path="{base.resolve()}"', f"run.max_steps={STEPS}", f"checkpoint.every={STEPS}"]
    overrides += ['monitor.console="off"']
    return build_config(preset.grpo(world, run_dir, seed), overrides)


def warm_start(folder: Path, base: Path) -> Path:
    """The base after a little supervised training on right traces: the study's other way to start."""
    config = stage_config(folder, WARM_START, base, seed=1)
    families = [list(FAMILIES)[i % len(FAMILIES)] for i in range(WARM_START.updates * WARM_START.prompts_per_update)]
    if RunFolder(config.run.dir).state() != "finished":
        write_stage(config.data.train[0], WARM_START, draw_records(folder, "warm", families, 1, any_options), 1)
        run_supervised(config)
    return RunFolder(config.run.dir).model(WARM_START.updates)


async def evaluated(configs: Sequence[Config], base: Path, start: Path) -> list[Report]:
    """The reports of the base and of each run's last checkpoint."""
    async with evaluator(configs[0]) as ready:
        await evaluate(ready, base, start)
        folders = [start]
        for folder in (RunFolder(config.run.dir) for config in configs):
            last = folder.steps()[-1]
            await evaluate(ready, folder.model(last), folder.evaluation(last))
            folders.append(folder.evaluation(last))
    return [read_report(folder) for folder in folders]


def pass_at_n(run: Path) -> float:
    """The share of questions of which at least one of the n responses was right, among those that the base sampled."""
    lines = (run / "rollouts" / "step-000001.jsonl").read_text(encoding="utf-8").splitlines()
    best: dict[str, float] = {}
    for line in map(json.loads, lines):
        best[line["question"]] = max(best.get(line["question"], 0.0), line["accuracy"] or 0.0)
    return float(np.mean(list(best.values())))


@dataclass(slots=True, frozen=True)
class Training:
    """What an arm's runs say of themselves."""

    reward_first: float  # mean of the first fit step
    reward_last: float
    largest_lag: int
    groups_of_two_versions: int  # in all runs


def training(runs: Sequence[Path]) -> Training:
    steps = [list(map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())) for run in runs]
    return Training(
        float(np.mean([lines[0]["reward/mean"] for lines in steps])),
        float(np.mean([lines[-1]["reward/mean"] for lines in steps])),
        max(line["lag/max"] for lines in steps for line in lines),
        sum(line["groups/mixed_versions"] for lines in steps for line in lines),
    )


def write_results(
    out: Path,
    starts: Mapping[str, Report],
    finals: Mapping[str, Sequence[Report]],
    trainings: Mapping[str, Training],
    passes: Sequence[float],
) -> None:
    """results.json and results.md, after every arm."""
    arms = {
        name: summary(starts[ARMS[name].base], reports) | asdict(trainings[name]) for name, reports in finals.items()
    }
    tree = {
        "name": "learning",
        "machine": {"processor": platform.processor() or platform.machine(), "python": platform.python_version()},
        "pass@8 of the base": float(np.mean(passes)) if passes else None,
        "arms": arms,
    }
    (out / "results.json").write_text(json.dumps(tree, indent=2) + "\n", encoding="utf-8")
    header = ["arm", "start", "final (95 % interval)", "gain", "by seed", "reward", "lag", "no video", *FAMILIES]
    rows = [
        [
            ARMS[name].what,
            f"{arm['start']:.3f}",
            f"{arm['final']:.3f} ({arm['interval'][0]:.3f} to {arm['interval'][1]:.3f})",
            f"{arm['gain']:+.3f}",
            ", ".join(f"{value:.3f}" for value in arm["by_seed"]),
            f"{arm['reward_first']:.2f} to {arm['reward_last']:.2f}",
            str(arm["largest_lag"]),
            f"{arm['blind']:.3f}",
            *(f"{arm['families'][family]:.2f}" for family in FAMILIES),
        ]
        for name, arm in arms.items()
    ]
    (out / "results.md").write_text(table(header, rows) + "\n", encoding="utf-8")


def summary(start: Report, reports: Sequence[Report]) -> dict[str, Any]:
    """Means over seeds; the interval is Student's t over the seeds' macro means."""
    means = np.array([report.macro_mean for report in reports])
    spread = stats.t.ppf(0.975, len(means) - 1) * stats.sem(means) if len(means) > 1 else float("nan")
    families = [by_family(report) for report in reports]
    blind = [[column.accuracy for column in report.probes["blind"].values()] for report in reports]
    return {
        "start": start.macro_mean,
        "start_interval": [start.macro_interval.low, start.macro_interval.high],
        "final": float(means.mean()),
        "interval": [float(means.mean() - spread), float(means.mean() + spread)],
        "gain": float(means.mean() - start.macro_mean),
        "by_seed": means.tolist(),
        "blind": float(np.mean(blind)),
        "families": {family: float(np.mean([f[family] for f in families])) for family in families[0]},
        "start_families": by_family(start),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--unbiased", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
