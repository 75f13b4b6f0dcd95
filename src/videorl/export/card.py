"""README.md of a trained model: what it scores against its base, how it was trained, what it is for, how to run it.

Every number comes from the run's files (config.toml, metrics.jsonl, eval/); what is not there is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from huggingface_hub.repocard import metadata_load
from yaml import YAMLError

from videorl.config import Config
from videorl.data.rows import expand
from videorl.data.templates import Template, template_named
from videorl.errors import UserError
from videorl.eval.comparison import Comparison, compare_predictions
from videorl.eval.markdown import interval_text, table
from videorl.eval.predictions import read_predictions
from videorl.eval.report import Report, macro_mean
from videorl.eval.report_file import read_report
from videorl.eval.run_folder import RunFolder, find_model
from videorl.eval.trajectory import Point, read_trajectory, render_trajectory
from videorl.export.model import Export, read_export
from videorl.export.processor import DIFFERENCES
from videorl.export.usage import usage_code

_USAGE_TOKENS = 1_024  # the longest answer that the usage code asks for
_MODEL_CARD_TASK = "video-text-to-text"


@dataclass(slots=True, frozen=True)
class Facts:
    """All that the card may say. Made by `collect_facts`; a part that the run does not hold is None or empty."""

    name: str
    run: RunFolder
    step: int
    config: Config
    metrics: Mapping[str, Any]  # of that step
    export: Export | None
    base_report: Report | None
    report: Report | None
    comparison: Comparison | None
    trajectory: Sequence[Point]
    base_model: str
    license: str | None


def collect_facts(name: str, base_model: str | None = None, license: str | None = None) -> tuple[Facts, Path]:
    """The facts about RUN[@STEP|@keeper] or an exported DIR, and the folder that the card belongs to.

    Args:
        base_model: the base's name on a hub, where the folder's own name is not it.
        license: of the base, where its folder does not say.

    Raises:
        UserError: neither a run nor an export, or an export whose run is gone.
    """
    folder = Path(name)
    export = read_export(folder)
    if export is not None:
        run, step = RunFolder((folder / export.run).resolve()), export.step
        if not (run.path / "config.toml").is_file():
            raise UserError(f"{folder}: the run that it was exported from is not at {run.path}; give the run instead")
    else:
        run, step, folder = _run_and_step(name)
    config = run.config()
    base_report, report = _report(run, 0), _report(run, step)
    facts = Facts(
        name=folder.resolve().name,
        run=run,
        step=step,
        config=config,
        metrics=_metrics(run.path / "metrics.jsonl", step),
        export=export,
        base_report=base_report,
        report=report,
        comparison=_comparison(run, step) if base_report and report and step > 0 else None,
        trajectory=read_trajectory(run),
        base_model=base_model or config.model.path.name,
        license=license or _license(config.model.path),
    )
    return facts, folder


def render_card(facts: Facts) -> str:
    """The card as Markdown with YAML front matter."""
    parts = [
        f"---\n{_front_matter(facts).to_yaml()}\n---",
        f"# {facts.name}",
        _introduction(facts),
        _results(facts),
        _trajectory(facts),
        _looking(facts),
        _training(facts),
        _lineage(facts),
        _limits(facts),
        _usage(facts),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


# ── facts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _run_and_step(name: str) -> tuple[RunFolder, int, Path]:
    run = RunFolder(Path(name))
    keeper = run.keeper() if (run.path / "config.toml").is_file() else None
    choice = find_model(f"{name}@keeper" if keeper else name)
    if choice.run is None or choice.step is None:
        raise UserError(f"{name}: neither a run nor an export of one")
    return choice.run, choice.step, choice.run.path


def _report(run: RunFolder, step: int) -> Report | None:
    folder = run.evaluation(step)
    return read_report(folder) if (folder / "report.json").is_file() else None


def _comparison(run: RunFolder, step: int) -> Comparison | None:
    files = [run.evaluation(s) / "predictions.jsonl" for s in (0, step)]
    return compare_predictions(*(read_predictions(f) for f in files)) if all(f.is_file() for f in files) else None


def _metrics(path: Path, step: int) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            tree = json.loads(line) if line.endswith(b"}") else {}  # the run may be writing the last one
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}:{number}: not valid JSON: {error}") from None
        if isinstance(tree, dict) and tree.get("step") == step:
            return tree
    return {}


def _license(base: Path) -> str | None:
    """What the front matter of the base's own card says.

    Raises:
        UserError: it has one that cannot be read.
    """
    card = base / "README.md"
    try:
        metadata = metadata_load(card) if card.is_file() else None
    except (ValueError, YAMLError) as error:
        raise UserError(f"{card}: its front matter cannot be read: {error}; say --license") from None
    return str(metadata["license"]) if metadata and "license" in metadata else None


def _train_files(config: Config) -> list[Path]:
    """The files that the patterns of data.train stand for, or the patterns where the files are gone."""
    try:
        return expand(config.data.train)
    except UserError:
        return list(config.data.train)


# ── sections ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _front_matter(facts: Facts) -> ModelCardData:
    results = [
        EvalResult(
            task_type=_MODEL_CARD_TASK,
            dataset_type=name,
            dataset_name=name,
            metric_type="accuracy",
            metric_value=round(column.accuracy, 4),
        )
        for name, column in (facts.report.benchmarks.items() if facts.report else ())
    ]
    return ModelCardData(
        base_model=facts.base_model,
        library_name="transformers",
        pipeline_tag=_MODEL_CARD_TASK,
        license=facts.license,
        tags=["video", "multiple-choice", "reinforcement-learning", "grpo", "videorl"],
        datasets=sorted({path.stem for path in _train_files(facts.config)}),
        model_name=facts.name if results else None,
        eval_results=results or None,
    )


def _introduction(facts: Facts) -> str:
    return (
        f"{facts.base_model}, post-trained on multiple-choice questions about videos with reinforcement learning from "
        f"verifiable rewards (GRPO), fit step {facts.step}. It reasons between `<think>` and `</think>` and then gives "
        "the letter of its answer."
    )


def _results(facts: Facts) -> str:
    report = facts.report
    if report is None:
        return "## Results\n\nThis checkpoint has not been evaluated."
    header = ["accuracy", "mean", *report.benchmarks]
    rows = [_accuracies(f"step {facts.step}", report, report.benchmarks), _intervals(report, report.benchmarks)]
    if facts.base_report:
        rows += [_accuracies("base", facts.base_report, report.benchmarks)]
        rows += [_intervals(facts.base_report, report.benchmarks)]
    if c := facts.comparison:
        of_one = [c.benchmarks.get(name) for name in report.benchmarks]
        rows.append(
            ["difference", f"{c.macro_difference:+.4f}", *(f"{d.difference:+.4f}" if d else "" for d in of_one)]
        )
        bounds = [interval_text(c.macro_interval), *(interval_text(d.interval) if d else "" for d in of_one)]
        rows.append(["95 % interval, paired", *bounds])
    notes = [_asked(report)]
    for name, column in report.benchmarks.items():
        notes += [f"{name}: {text}." for text in column.filters]
    if not report.complete:
        notes.append("**This evaluation is incomplete: rows that failed are counted as wrong.**")
    return "\n\n".join(["## Results", table(header, rows), *notes])


def _accuracies(label: str, report: Report, names: Mapping[str, Any]) -> list[str]:
    columns = [report.benchmarks.get(name) for name in names]
    return [label, f"{report.macro_mean:.4f}", *(f"{c.accuracy:.4f}" if c else "" for c in columns)]


def _intervals(report: Report, names: Mapping[str, Any]) -> list[str]:
    columns = [report.benchmarks.get(name) for name in names]
    bounds = [interval_text(c.interval) if c else "" for c in columns]
    return ["95 % interval", interval_text(report.macro_interval), *bounds]


def _asked(report: Report) -> str:
    rows, said = sum(column.rows for column in report.benchmarks.values()), report.settings
    counted = f"Accuracy over all {rows} rows; a row without an answer is wrong."
    if not {"temperature", "prompt", "max_frames", "max_pixels", "fps", "dtype"} <= said.keys():
        return counted
    sampling = "greedy" if said["temperature"] == 0 else f"temperature {said['temperature']}"
    return (
        f"{counted} Prompt form `{said['prompt']}`, at most {said['max_frames']} frames of {said['max_pixels']} pixels "
        f"at {said['fps']} frames a second, {sampling}, {said['dtype']}."
    )


def _trajectory(facts: Facts) -> str:
    if len(facts.trajectory) < 2:
        return ""
    return f"## Trajectory\n\n{render_trajectory(facts.trajectory, facts.run.keeper()).rstrip()}"


def _looking(facts: Facts) -> str:
    """The probes, where the evaluation had some."""
    report = facts.report
    if report is None or not report.probes:
        return ""
    rows = [_accuracies("plain", report, report.benchmarks)]
    for probe, columns in report.probes.items():
        values = [f"{columns[name].accuracy:.4f}" if name in columns else "" for name in report.benchmarks]
        rows.append([probe, f"{macro_mean(columns):.4f}", *values])
    return f"## Is it looking?\n\n{table(['accuracy', 'mean', *report.benchmarks], rows)}"


def _training(facts: Facts) -> str:
    c = facts.config
    settings: dict[str, Any] = {
        "algorithm": f"GRPO, {c.algo.group_size} responses a question, KL {c.algo.kl_coef:g}",
        "loss": f"ratio clip {c.algo.clip_low:g} / {c.algo.clip_high:g}, dual clip {c.algo.dual_clip:g}, token mean",
        "reward": f"{c.reward.name}: {1 - c.reward.format_weight:g} accuracy + {c.reward.format_weight:g} format, "
        f"at least {c.reward.min_think_chars} characters of reasoning",
        "batch": f"{c.trainer.prompts_per_update} questions x {c.trainer.updates_per_step} updates x "
        f"{c.algo.group_size} responses = {c.trajectories_per_step} responses a fit step",
        "optimizer": f"AdamW, lr {c.trainer.lr:g} after {c.trainer.warmup_steps} steps of warm-up, betas "
        f"{c.trainer.betas[0]:g} / {c.trainer.betas[1]:g}, weight decay {c.trainer.weight_decay:g}, "
        f"gradient clip {c.trainer.grad_clip:g}",
        "asynchrony": f"staleness {c.async_.staleness:g}, at most {c.async_.max_lag} versions of lag",
        "data": ", ".join(path.name for path in _train_files(c)) + f"; {c.data.epochs} epoch(s) planned",
        "frames": f"at most {c.data.max_frames} of at most {c.data.max_pixels:,} pixels, {c.data.fps:g} a second",
        "lengths": f"prompt up to {c.data.max_prompt_tokens:,} tokens, response up to "
        f"{c.rollout.max_response_tokens:,}",
        "devices": f"{c.cluster.trainer_ranks} trainer rank(s), {c.replicas} rollout replica(s) of "
        f"{c.rollout.tensor_parallel} device(s)",
        "vision tower": "frozen" if c.model.freeze_vision else "trained",
        "fit steps": facts.step,
    }
    measured = {
        "reward/mean": "mean reward at this step",
        "reward/accuracy": "training accuracy at this step",
        "response/length": "mean response tokens at this step",
    }
    for key, label in measured.items():
        if isinstance(value := facts.metrics.get(key), int | float):
            settings[label] = f"{value:.3f}"
    return f"## Training\n\n{table(['', ''], [[name, str(value)] for name, value in settings.items()])}"


def _lineage(facts: Facts) -> str:
    trained = f"- Trained with videorl {version('videorl')}; the resolved config"
    license = f" Its licence ({facts.license}) applies." if facts.license else " The licence of the base applies."
    lines = [
        f"- Base: {facts.base_model}.{license}",
        f"{trained} stands beside the weights in `videorl.toml`."
        if facts.export
        else f"{trained} is the run's `config.toml`.",
    ]
    if facts.report:
        lines.append(f"- Evaluated weights: `{facts.report.weights[:16]}`.")
    return "## Lineage\n\n" + "\n".join(lines)


def _limits(facts: Facts) -> str:
    differences = facts.export.differences if facts.export else DIFFERENCES
    lines = [
        "- Made for multiple-choice questions about short videos, asked in the form below; other uses are untested.",
        "- The reward checks the letter and the form of the answer. Nothing checks that the reasoning is true.",
        "- What the base model gets wrong or is biased in, this model may too.",
        "- The processor's config carries training's frame and pixel limits. What still differs from training when it "
        "samples frames itself:",
        *(f"  - {difference}" for difference in differences),
    ]
    return "## Intended use and limits\n\n" + "\n".join(lines)


def _usage(facts: Facts) -> str:
    template: Template = template_named(facts.config.data.prompt, facts.config.reward.name)
    code = usage_code(template, facts.config.data.frame_sampling, _USAGE_TOKENS)
    return (
        "## Usage\n\nFrames are decoded as in training: evenly spread, resized, with their true times "
        f"(needs av, numpy, torch, transformers).\n\n```python\n{code}```"
    )
