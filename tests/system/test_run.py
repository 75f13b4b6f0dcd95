"""The main job: FSDP2 ranks, vLLM replicas and Ray on real video, stopped in the middle and gone on with."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from videorl.cluster.trainer import weights_folder
from videorl.config import load_config
from videorl.playground.world import make_playground

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

STEPS, GROUPS, RESPONSES, OUTSTANDING, MAX_LAG, BROKEN = 8, 8, 8, 11, 2, 5


@dataclass(slots=True, frozen=True)
class StoppedAndResumed:
    folder: Path
    stopped: subprocess.CompletedProcess[str]
    resumed: subprocess.CompletedProcess[str]

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.lines("events.jsonl") if event["kind"] == kind]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> StoppedAndResumed:
    folder = tmp_path_factory.mktemp("run")
    world = make_playground(folder / "playground", seed=1, questions_per_family=20)
    for video in sorted((world / "videos").glob("train-*.mp4"))[:: 100 // BROKEN]:
        video.write_bytes(video.read_bytes()[:100])
    name_an_option_like_a_placeholder(world / "train-direction.parquet")
    tree = config_tree(world, folder / "run")
    config = folder / "config.toml"
    config.write_text(tomli_w.dumps(tree))
    command = [str(Path(sys.executable).with_name("videorl")), "train", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for_step(folder / "run", 4, process)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=300)
    finally:
        process.kill()
    stopped = subprocess.CompletedProcess(command, process.returncode, *said)
    (folder / "status-when-stopped.json").write_bytes((folder / "run" / "status.json").read_bytes())
    resumed = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    return StoppedAndResumed(folder / "run", stopped, resumed)


def name_an_option_like_a_placeholder(path: Path) -> None:
    rows = pq.read_table(path)
    prompts = [
        [turn | {"content": turn["content"].replace("nowhere", "the <video> tag")} for turn in prompt]
        for prompt in rows["prompt"].to_pylist()
    ]
    column = rows.schema.get_field_index("prompt")
    pq.write_table(rows.set_column(column, rows.schema.field("prompt"), pa.array(prompts, rows["prompt"].type)), path)


def config_tree(world: Path, run: Path) -> dict[str, Any]:
    """Two ranks and two replicas; one group at a time in each, so that some are under way at every publication."""
    return {
        "run": {"dir": str(run), "max_steps": STEPS},
        "model": {"path": str(world / "base")},
        "data": {
            "train": [str(world / "train-*.parquet")],
            "media_root": str(world),
            "fps": 2.0,
            "max_frames": 8,
            "max_pixels": 8_192,
            "max_prompt_tokens": 512,
            "decode_workers": 1,
            "max_bad_share": 0.5,
        },
        "rollout": {
            "max_response_tokens": 192,
            "block_size": 32,
            "max_num_seqs": RESPONSES,
            "max_batched_tokens": 2_048,
            "kv_cache_gib": 0.5,
        },
        "trainer": {
            "prompts_per_update": 4,
            "updates_per_step": 2,
            "lr": 1e-4,
            "warmup_steps": 2,
            "token_budget": 4_096,
            "activation_checkpointing": False,
        },
        "checkpoint": {"every": 3},
        "cluster": {"device": "cpu", "devices_per_node": 4, "trainer_ranks": 2, "rollout_devices": 2},
    }


def wait_for_step(folder: Path, step: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline and process.poll() is None:
        status = folder / "status.json"
        if status.exists() and json.loads(status.read_text())["step"] >= step:
            return
        time.sleep(0.1)
    raise AssertionError(f"step {step} was not reached: {process.communicate()[1] if process.poll() else ''}")


def test_sigterm_ends_the_run_with_one_line_and_no_success(run):
    assert run.stopped.returncode == 1
    assert run.stopped.stderr.strip().splitlines()[-1].startswith("videorl: stopped by SIGTERM")
    assert json.loads((run.folder.parent / "status-when-stopped.json").read_text())["state"] == "stopped"


def test_the_second_start_goes_on_from_the_last_checkpoint_to_the_end(run):
    assert run.resumed.returncode == 0, run.resumed.stderr
    status = json.loads((run.folder / "status.json").read_text())
    assert (status["state"], status["step"], status["version"]) == ("finished", STEPS, STEPS)
    assert [event["resumed_from"] for event in run.events("run_started")] == [None, 3]


def test_the_run_directory_is_as_promised(run):
    names = {path.name for path in run.folder.iterdir()}
    assert names >= {"config.toml", "status.json", "metrics.jsonl", "events.jsonl", "rollouts", "ledger.sqlite"}
    for step in (3, 6, 8):
        held = {path.name for path in (run.folder / "checkpoints" / f"step-{step:06d}").iterdir()}
        assert held == {"trainer", "hf", "state.json", "COMPLETE"}
    rollouts = [run.lines(f"rollouts/step-{step:06d}.jsonl") for step in range(1, STEPS + 1)]
    assert [len(lines) for lines in rollouts] == [GROUPS * RESPONSES] * STEPS


def test_every_step_stands_once_in_the_metrics(run):
    assert [line["step"] for line in run.lines("metrics.jsonl")] == list(range(1, STEPS + 1))


def test_each_question_was_trained_exactly_once_or_dropped_with_its_reason(run):
    with sqlite3.connect(run.folder / "ledger.sqlite") as ledger:
        states = Counter(row[0] for row in ledger.execute("select state from questions"))
        reasons = {row[0] for row in ledger.execute("select reason from questions where state = 'dropped'")}
        by_step = dict(ledger.execute("select step, count(*) from questions where state = 'trained' group by step"))
    assert states["trained"] == STEPS * GROUPS
    assert set(states) == {"trained", "pending", "dropped"}
    assert 1 <= states["dropped"] <= BROKEN
    assert reasons == {"video_broken"}
    assert by_step == dict.fromkeys(range(1, STEPS + 1), GROUPS)
    asked = [line["question"] for s in range(1, STEPS + 1) for line in run.lines(f"rollouts/step-{s:06d}.jsonl")]
    assert set(Counter(asked).values()) == {RESPONSES}


def test_an_option_that_reads_like_a_placeholder_is_text_all_the_way(run):
    prompts = [line["prompt"] for s in range(1, STEPS + 1) for line in run.lines(f"rollouts/step-{s:06d}.jsonl")]
    tagged = [prompt for prompt in prompts if "the <video> tag" in prompt]
    assert tagged
    assert {prompt.count("<|video_pad|>") for prompt in tagged} == {1}


def test_trainer_and_engine_agree_on_log_probs_of_the_same_weights(run):
    differences = [line["logprob/max_diff"] for line in run.lines("metrics.jsonl") if line.get("logprob/max_diff")]
    assert differences, "no step trained a token sampled under its own weights"
    assert max(differences) <= 1e-4


def test_sampling_goes_on_while_the_trainer_updates(run):
    groups = run.events("group")
    fit_steps = {step: [u for u in run.events("update") if u["step"] == step] for step in range(1, STEPS + 1)}
    spans = [(updates[0]["starts"], updates[-1]["ends"]) for updates in fit_steps.values()]
    overlapping = [g for g in groups for start, end in spans if g["starts"] < end and g["ends"] > start]
    assert overlapping
    assert any(update["sampling_before"] for update in run.events("update"))


def test_lag_is_there_and_bounded_and_so_is_what_is_outstanding(run):
    metrics = run.lines("metrics.jsonl")
    assert 1 <= max(line["lag/max"] for line in metrics) <= MAX_LAG
    assert max(line["outstanding/max"] for line in metrics) <= OUTSTANDING


def test_some_trained_groups_carry_two_versions_in_order(run):
    spans = [line["versions"] for s in range(1, STEPS + 1) for line in run.lines(f"rollouts/step-{s:06d}.jsonl")]
    assert any(first < last for first, last in spans)
    assert all(first <= last for first, last in spans)


def test_no_staged_weights_outlive_the_run(run):
    assert not weights_folder(load_config(run.folder / "config.toml")).exists()


def test_publications_count_up_by_one(run):
    versions = [event["version"] for event in run.events("publication")]
    assert all(b - a == 1 for a, b in pairwise(versions))


def test_the_last_checkpoint_loads_as_an_ordinary_model(run):
    folder = run.folder / "checkpoints" / f"step-{STEPS:06d}" / "hf"
    model = AutoModelForImageTextToText.from_pretrained(folder, local_files_only=True)
    AutoProcessor.from_pretrained(folder, local_files_only=True)
    assert all(torch.isfinite(p).all() for p in model.parameters())
