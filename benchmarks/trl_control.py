"""A control: the same base through TRL's GRPOTrainer, images in place of video, beside runs of ours.

    python benchmarks/trl_control.py OUT RUN [RUN …] [--environment DIR] [--curves-only]

For each seed among the runs TRL trains on the same questions in the same order with the same settings (what differs
all the same is listed in `trl_train.py`), in an environment of its own. A pair of frames, which the model sees as one
grid under one time, becomes an image of its first frame under the same time: the same ids but for the placeholder.
Runs named NAME-SEED are the seeds of one arm. results.md has the accuracy of the sampled responses by trajectories and,
unless --curves-only, the greedy accuracy of the final models on the held-out videos. A seed that TRL has finished is
not trained again.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float64
from PIL import Image
from scipy import stats
from transformers import AutoProcessor

import videorl
from videorl.config import Config
from videorl.data.dataset import load_dataset
from videorl.data.prompt import PromptBuilder
from videorl.data.sampling import FRAMES_PER_PATCH
from videorl.data.store import FrameStore
from videorl.data.templates import template_named
from videorl.errors import UserError, VideorlError
from videorl.eval.markdown import table
from videorl.eval.report_file import read_report
from videorl.eval.run_folder import RunFolder
from videorl.monitor.run_files import RunFiles
from videorl.playground.demo import evaluate, evaluator
from videorl.types import Frames, Prompt

PACKAGES = (
    "trl==1.16.0",
    "transformers==5.19.0",
    "torch==2.14.0",
    "torchvision==0.29.0",
    "numpy",
    "pillow",
    "pyarrow",
    "pydantic",
    "jaxtyping",
    "tomli-w",
)
NEWEST = "2026-11-28T00:00:00Z"  # no package younger than this
TRL = "TRL"

_USER_TURN = re.compile(r"<\|im_start\|>user\n(.*)<\|im_end\|>\n<\|im_start\|>assistant\n", re.DOTALL)
_PAIR = re.compile(r"<\|vision_start\|>(?:<\|video_pad\|>)+<\|vision_end\|>")

Curves = dict[int, list[float]]  # by seed: the accuracy of each fit step's responses


# ── the questions, with images ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, frozen=True)
class ImagePrompt:
    """A prompt as TRL's datasets have it: the image parts of `messages` are empty, their pixels stand in `images`."""

    messages: list[dict[str, Any]]
    images: list[Image.Image]


def image_prompt(processor: Any, prompt: Prompt, frames: Frames) -> ImagePrompt:
    """The prompt of one video with an image of each pair's first frame in the pair's place.

    Raises:
        VideorlError: the model's processor makes other ids of it than the video's with other placeholders.
    """
    turn = _USER_TURN.fullmatch(processor.tokenizer.decode(prompt.token_ids))
    if turn is None:
        raise VideorlError(f"{prompt.text!r}: not one user's turn in ChatML")
    *marks, text = _PAIR.split(turn[1])
    images = [Image.fromarray(np.array(pixels)) for pixels in frames.pixels[::FRAMES_PER_PATCH]]
    content = [part for mark in marks for part in ({"type": "text", "text": mark}, {"type": "image"})]
    messages = [{"role": "user", "content": [*content, {"type": "text", "text": text}]}]
    expected = np.where(prompt.token_ids == processor.video_token_id, processor.image_token_id, prompt.token_ids)
    if not np.array_equal(processed(processor, ImagePrompt(messages, images))["input_ids"][0], expected):
        raise VideorlError(f"{prompt.text!r}: with images its ids are not those of the video")
    return ImagePrompt(messages, images)


def processed(processor: Any, prompt: ImagePrompt) -> Any:
    """The model's inputs, as its processor makes them of conversation and images."""
    text = processor.apply_chat_template(prompt.messages, tokenize=False, add_generation_prompt=True)
    return processor(text=[text], images=[prompt.images], return_tensors="pt")


def write_questions(config: Config, path: Path) -> None:
    """What the run asks, in its order, as far as its fit steps go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(question_rows(config))), path)


def question_rows(config: Config) -> Iterator[dict[str, Any]]:
    processor = AutoProcessor.from_pretrained(config.model.path, local_files_only=True)
    template = template_named(config.data.prompt, config.reward.name)
    prompts = PromptBuilder(config.model.path, template, config.data.max_prompt_tokens)
    dataset, _ = load_dataset(config.data, config.run.seed)
    wanted = steps_of(config) * config.groups_per_step
    if wanted > len(dataset):
        raise UserError(f"{config.run.dir}: it asks {wanted} questions, more than the {len(dataset)} of one epoch")
    store = FrameStore.from_config(config.data, config.store_dir)
    try:
        for position in range(wanted):
            question = dataset.issued(0, position).question
            (ref,) = (store.reference(media) for media in question.media)
            frames = store.load(ref)
            asked = image_prompt(processor, prompts.build(question, [(ref, frames)]), frames)
            images = [{"bytes": png(image), "path": None} for image in asked.images]
            yield {
                "prompt": asked.messages,
                "images": images,
                "options": list(question.options),
                "answer": question.answer,
            }
    finally:
        store.close()


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def steps_of(config: Config) -> int:
    if config.run.max_steps is None:
        raise UserError(f"{config.run.dir}: run.max_steps is not set; the control trains as many fit steps")
    return config.run.max_steps


# ── TRL, in its environment ─────────────────────────────────────────────────────────────────────────────────────────


def prepare_environment(folder: Path) -> Path:
    """The interpreter of an environment that holds `PACKAGES`."""
    python, made_of = folder / "bin" / "python", folder / "packages.txt"
    wanted = "\n".join((*PACKAGES, NEWEST))
    if not made_of.is_file() or made_of.read_text() != wanted:
        uv = [sys.executable, "-m", "uv", "--quiet", "--no-config"]
        subprocess.run([*uv, "venv", "--clear", "--python", sys.executable, str(folder)], check=True)
        install = ["pip", "install", "--python", str(python), "--exclude-newer", NEWEST, *PACKAGES]
        subprocess.run([*uv, *install], check=True)
        made_of.write_text(wanted)
    return python


def train(python: Path, run: RunFolder, out: Path) -> None:
    """TRL on the questions of `run`, unless it has left its model in `out` already."""
    if (out / "model").is_dir():
        return
    questions = out / "questions.parquet"
    write_questions(run.config(), questions)
    script = Path(__file__).resolve().with_name("trl_train.py")
    sources = str(Path(videorl.__file__).resolve().parents[1])
    environment = os.environ | {"PYTHONPATH": sources, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    config_file = (run.path / "config.toml").resolve()
    command = [str(python), str(script), str(config_file), str(questions.resolve()), str(out.resolve())]
    with (out / "log.txt").open("w") as log:
        done = subprocess.run(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    if done.returncode:
        raise VideorlError(f"{out / 'log.txt'}: TRL's training ended with exit code {done.returncode}")


# ── the comparison ──────────────────────────────────────────────────────────────────────────────────────────────────


def gather(runs: Sequence[RunFolder]) -> dict[str, dict[int, RunFolder]]:
    """The runs by arm and seed.

    Raises:
        UserError: they differ in more than seed and schedule.
    """
    arms: dict[str, dict[int, RunFolder]] = {}
    first = learning_settings(runs[0].config())
    for run in runs:
        config = run.config()
        if learning_settings(config) != first:
            raise UserError(
                f"{run.path}: its settings are not those of {runs[0].path}; only seed and schedule may differ"
            )
        arms.setdefault(run.path.resolve().name.rpartition("-")[0] or "ours", {})[config.run.seed] = run
    return arms


def learning_settings(config: Config) -> tuple[Any, ...]:
    """What has to be equal for two curves to stand beside each other."""
    sections = config.model_dump(include={"model", "data", "reward", "algo", "trainer"})
    return sections, config.sampling, steps_of(config)


def our_curve(run: RunFolder) -> list[float]:
    """The accuracy of each fit step; of a step that a resumed run did again, the last."""
    lines = RunFiles.open(run.path).metrics()
    accuracies = {line["step"]: line["reward/accuracy"] for line in lines}
    steps = steps_of(run.config())
    if sorted(accuracies) != list(range(1, steps + 1)):
        raise UserError(f"{run.path / 'metrics.jsonl'}: it has not the {steps} fit steps of a finished run")
    return [accuracies[step] for step in sorted(accuracies)]


def trl_lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def spread(values: Float64[np.ndarray, "seeds *rest"]) -> Any:
    """Half the 95 % interval of the mean over seeds, by Student's t: a number or an array [*rest]; NaN for one seed."""
    seeds = len(values)
    if seeds < 2:
        return np.full(values.shape[1:], np.nan)[()]
    return stats.t.ppf(0.975, seeds - 1) * values.std(0, ddof=1) / np.sqrt(seeds)


def compared(ours: Curves, theirs: Curves) -> dict[str, Any]:
    """Ours less TRL's over the seeds that both have, which asked the same questions in the same order."""
    seeds = sorted(ours.keys() & theirs.keys())
    differences = np.array([ours[seed] for seed in seeds]) - np.array([theirs[seed] for seed in seeds])
    whole = differences.mean(1)
    within = np.abs(differences.mean(0)) <= spread(differences)
    return {
        "seeds": seeds,
        "by_step": differences.mean(0).tolist(),
        "by_step_spread": spread(differences).tolist(),
        "mean": float(whole.mean()),
        "mean_spread": float(spread(whole)),
        "steps_within": int(within.sum()),
    }


async def held_out(config: Config, models: Mapping[Path, Path]) -> dict[Path, float]:
    """The macro mean of each model's greedy answers on the held-out videos, by the folder of its answers."""
    async with evaluator(config) as ready:
        for out, model in models.items():
            await evaluate(ready, model, out)
    return {out: read_report(out).macro_mean for out in models}


def write_results(
    out: Path, config: Config, curves: Mapping[str, Curves], seconds: Mapping[int, float], finals: Mapping[str, Any]
) -> None:
    """results.json and results.md."""
    differences = {arm: compared(curve, curves[TRL]) for arm, curve in curves.items() if arm != TRL}
    tree = {
        "name": "trl_control",
        "machine": {"processor": platform.processor() or platform.machine(), "python": platform.python_version()},
        "packages": list(PACKAGES[:4]),
        "trajectories_per_step": config.trajectories_per_step,
        "accuracy": curves,
        "ours_less_trl": differences,
        "held_out": finals,
        "trl_seconds_per_step": seconds,
    }
    (out / "results.json").write_text(json.dumps(tree, indent=2) + "\n", encoding="utf-8")
    (out / "results.md").write_text(
        "\n\n".join([curve_table(config, curves), *summary_lines(differences, finals, steps_of(config))]) + "\n",
        encoding="utf-8",
    )


def curve_table(config: Config, curves: Mapping[str, Curves]) -> str:
    columns = [np.array(list(curve.values())) for curve in curves.values()]
    header = ["trajectories", *(f"{arm} (seeds {', '.join(map(str, curve))})" for arm, curve in curves.items())]
    rows = [
        [
            str((step + 1) * config.trajectories_per_step),
            *(_with_spread(column.mean(0)[step], spread(column)[step]) for column in columns),
        ]
        for step in range(steps_of(config))
    ]
    return table(header, rows)


def summary_lines(differences: Mapping[str, Mapping[str, Any]], finals: Mapping[str, Any], steps: int) -> list[str]:
    lines = []
    for arm, d in differences.items():
        line = f"{arm} less TRL, mean over the fit steps: {_with_spread(d['mean'], d['mean_spread'], sign='+')}."
        if len(d["seeds"]) > 1:
            line += f" The 95 % interval of the difference holds 0 at {d['steps_within']} of {steps} fit steps."
        lines.append(line)
    for arm, by_seed in finals.items():
        values = np.array(list(by_seed.values()))
        lines.append(f"{arm}, final model, held-out videos: {_with_spread(values.mean(), spread(values))}")
    return lines


def _with_spread(mean: float, half: float, sign: str = "") -> str:
    return f"{mean:{sign}.3f}" + ("" if np.isnan(half) else f" ± {half:.3f}")


def main() -> None:
    options = _arguments()
    arms = gather([RunFolder(path) for path in options.runs])
    runs = {seed: run for arm in arms.values() for seed, run in arm.items()}
    python = prepare_environment(options.environment)
    curves: dict[str, Curves] = {arm: {seed: our_curve(run) for seed, run in by.items()} for arm, by in arms.items()}
    curves[TRL] = {}
    seconds: dict[int, float] = {}
    models: dict[tuple[str, int], tuple[Path, Path]] = {}  # arm and seed → model, folder of its answers
    for seed, run in sorted(runs.items()):
        out: Path = options.out / f"trl-{seed}"
        train(python, run, out)
        lines = trl_lines(out)
        curves[TRL][seed] = [line["accuracy"] for line in lines]
        seconds[seed] = lines[-1]["seconds"] / len(lines)
        models[TRL, seed] = out / "model", out / "eval"
    for arm, by in arms.items():
        for seed, run in by.items():
            last = run.steps()[-1]
            models[arm, seed] = run.model(last), run.evaluation(last)
    first = next(iter(runs.values())).config()
    finals: dict[str, dict[int, float]] = {}
    if not options.curves_only:
        means = asyncio.run(held_out(first, {out: model for model, out in models.values()}))
        for (arm, seed), (_, out) in models.items():
            finals.setdefault(arm, {})[seed] = means[out]
    write_results(options.out, first, curves, seconds, finals)
    print((options.out / "results.md").read_text(encoding="utf-8"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a finished run of ours, as NAME-SEED")
    parser.add_argument("--environment", type=Path, default=Path("build/trl"))
    parser.add_argument("--curves-only", action="store_true", help="leave out the evaluation of the final models")
    return parser.parse_args()


if __name__ == "__main__":
    main()
