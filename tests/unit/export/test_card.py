"""The card of a made-up run: its numbers are the run's, what is missing is left out, and its code runs."""

import contextlib
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from builders_data import even_times, write_clip
from builders_eval import prediction
from videorl.config import build_config, dump_toml
from videorl.data.decoding import decode
from videorl.data.prompt import PromptBuilder, video_input
from videorl.data.templates import letter
from videorl.errors import UserError
from videorl.eval.predictions import PredictionFile
from videorl.eval.report import build_report, report_benchmark
from videorl.eval.report_file import write_report
from videorl.eval.run_folder import Keeper, RunFolder
from videorl.export.card import collect_facts, render_card
from videorl.export.model import export_model
from videorl.export.usage import usage_code
from videorl.playground.tiny_model import make_tiny_model
from videorl.types import FrameRef, FrameSampling, Media, Question

SETTINGS = {
    "temperature": 0.0,
    "prompt": "train",
    "max_frames": 8,
    "max_pixels": 8192,
    "fps": 2.0,
    "dtype": "float32",
}
FRAMES = FrameSampling(fps=2.0, max_frames=8, min_frames=2, max_pixels=8_192)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "Tiny-VL"
    make_tiny_model(folder, seed=2)
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\nThe base.\n")
    return folder


@pytest.fixture
def run(base: Path, tmp_path: Path) -> RunFolder:
    """A run of two checkpoints, without any evaluation."""
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    tree = {
        "model": {"path": str(base)},
        "data": {"train": [str(tmp_path / "train-colour.parquet")], "max_frames": 8, "max_pixels": 8_192, "fps": 2.0},
        "rollout": {"max_response_tokens": 64},
        "run": {"dir": str(run.path)},
    }
    (run.path / "config.toml").write_text(dump_toml(build_config(tree)))
    metrics = [{"step": step, "reward/mean": step / 100, "response/length": 90.5} for step in range(1, 41)]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
    for step in (20, 40):
        run.model(step).parent.mkdir(parents=True)
        run.model(step).symlink_to(base)
        (run.model(step).parent / "COMPLETE").touch()
    return run


def evaluate(run: RunFolder, step: int, right: int, rows: int = 40, **changes: bool) -> None:
    """A report and predictions in which the first `right` rows are right."""
    folder = run.evaluation(step)
    predictions = [prediction(i, "B" if i < right else "A", benchmark="clips") for i in range(rows)]
    with PredictionFile(folder / "predictions.jsonl", f"key{step}") as file:
        for row in predictions:
            file.append(row)
    report = build_report("m", f"key{step}", "abc" * 20, SETTINGS, {"clips": report_benchmark(predictions)}, {})
    write_report(replace(report, **changes), folder)


def card(run: RunFolder, name: str = "") -> str:
    return render_card(collect_facts(f"{run.path}{name}")[0])


def test_front_matter_says_what_a_hub_reads(run: RunFolder) -> None:
    evaluate(run, 40, 30)
    front = yaml.safe_load(card(run).split("---")[1])
    assert front["base_model"] == "Tiny-VL"
    assert front["library_name"] == "transformers"
    assert front["pipeline_tag"] == "video-text-to-text"
    assert front["license"] == "apache-2.0"
    assert front["datasets"] == ["train-colour"]
    assert "grpo" in front["tags"]
    assert front["model-index"][0]["results"][0]["metrics"][0]["value"] == 0.75


def test_results_stand_against_the_base_with_paired_difference(run: RunFolder) -> None:
    evaluate(run, 0, 20)
    evaluate(run, 40, 30)
    text = card(run)
    assert "| step 40 | 0.7500 | 0.7500 |" in text
    assert "| base | 0.5000 | 0.5000 |" in text
    assert "| difference | +0.2500 | +0.2500 |" in text
    assert "95 % interval, paired" in text
    assert "Accuracy over all 40 rows" in text


def test_the_keeper_is_the_one_that_is_described(run: RunFolder) -> None:
    for step, right in ((0, 10), (20, 33), (40, 20)):
        evaluate(run, step, right)
    run.write_keeper(Keeper(20, 0.825, "the benchmarks' macro mean", 0.825))
    text = card(run)
    assert "fit step 20" in text
    assert "20 (keeper)" in text
    assert "| mean reward at this step | 0.200 |" in text
    assert "fit step 40" in card(run, "@40")


def test_what_the_run_does_not_hold_is_left_out(run: RunFolder) -> None:
    (run.path / "metrics.jsonl").unlink()
    text = card(run)
    assert "has not been evaluated" in text
    for absent in ("model-index", "difference |", "## Trajectory", "## Is it looking?", "mean reward", "nan", "None"):
        assert absent not in text


def test_an_incomplete_evaluation_is_said(run: RunFolder) -> None:
    evaluate(run, 40, 30, complete=False)
    assert "incomplete" in card(run)


def test_training_is_described_by_the_resolved_config(run: RunFolder) -> None:
    text = card(run)
    assert "16 questions x 4 updates x 8 responses = 512 responses a fit step" in text
    assert "lr 1e-06 after 25 steps of warm-up" in text
    assert "at most 8 of at most 8,192 pixels, 2 a second" in text


def test_an_export_is_described_by_the_run_that_it_names(run: RunFolder, base: Path, tmp_path: Path) -> None:
    evaluate(run, 20, 30)
    out = tmp_path / "out"
    config = (run.path / "config.toml").read_text()
    export_model(base, base, out, frames=FRAMES, dtype="float32", run="../run", step=20, config_toml=config)
    facts, folder = collect_facts(str(out))
    assert folder == out
    assert "| step 20 | 0.7500 |" in render_card(facts)
    (run.path / "config.toml").unlink()
    with pytest.raises(UserError, match="the run that it was exported from is not at"):
        collect_facts(str(out))


def test_the_usage_code_runs_and_sees_what_training_saw(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    export_model(base, base, out, frames=FRAMES, dtype="float32", run="../run", step=20, config_toml="")
    times = even_times(50, 10.0)
    write_clip(out / "clip.mp4", times, size=(120, 200))
    monkeypatch.chdir(out)
    space: dict = {}
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(usage_code(letter, FRAMES, 12), "usage", "exec"), space)

    media = Media("video", str(out / "clip.mp4"))
    frames = decode(media, FRAMES)
    asked = Question(
        "q",
        "multiple_choice",
        "What does the person pick up?",
        ("a cup", "a book", "a phone", "nothing"),
        0,
        (media,),
        "s",
    )
    prompt = PromptBuilder(base, letter, 4_096).build(asked, [(FrameRef("k", media, FRAMES), frames)])
    assert space["inputs"].input_ids[0].tolist() == prompt.token_ids.tolist()
    assert np.array_equal(space["pixels"].permute(0, 2, 3, 1).numpy(), frames.pixels)
    assert space["stamps"] == video_input(frames).metadata["frames_indices"]
    assert (
        said.getvalue().strip()
        == space["processor"].decode(space["answer"][0, len(prompt.token_ids) :], skip_special_tokens=True).strip()
    )


def test_the_card_shows_exactly_the_code_that_the_test_runs(run: RunFolder) -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", card(run), re.DOTALL)
    assert shown == usage_code(letter, FRAMES, 1_024)


def test_a_card_of_the_base_that_cannot_be_read_is_named(base: Path, run: RunFolder) -> None:
    card = base / "README.md"
    text = card.read_text()
    try:
        card.write_text("---\nlicense: [\n---\n")
        with pytest.raises(UserError, match=r"(?s)README\.md: its front matter cannot be read: .*; say --license"):
            collect_facts(str(run.path))
    finally:
        card.write_text(text)


def test_settings_that_a_report_does_not_hold_are_left_out(run: RunFolder) -> None:
    evaluate(run, 20, 8)
    path = run.evaluation(20) / "report.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"settings": {}}))
    text = card(run, "@20")
    assert "a row without an answer is wrong." in text
    assert "Prompt form" not in text
