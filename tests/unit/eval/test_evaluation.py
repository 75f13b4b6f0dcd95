"""One evaluation from benchmarks to files, with a scripted engine."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from builders_eval import Scripted, prepare, question
from videorl.config import build_config
from videorl.errors import EngineDied, VideorlError
from videorl.eval.benchmarks import Benchmark, Unreadable
from videorl.eval.evaluation import Evaluation
from videorl.eval.predictions import read_predictions
from videorl.eval.report_file import read_report
from videorl.eval.settings import EvalSettings
from videorl.rewards.reward import MultipleChoice

CONFIG = build_config({"model": {"path": "m"}, "data": {"train": ["t"]}, "rollout": {"max_response_tokens": 8}})
SETTINGS = EvalSettings.of_config(CONFIG, "train", subtitles=False)
CLIPS = Benchmark("clips", Path("clips.json"), "video-r1", tuple(question(n) for n in range(4)), (), ("4 of 5 rows",))


def evaluation(*benchmarks: Benchmark, probes: tuple[str, ...] = (), settings: EvalSettings = SETTINGS) -> Evaluation:
    return Evaluation(benchmarks or (CLIPS,), settings, prepare, MultipleChoice(), probes)


async def test_an_evaluation_leaves_predictions_report_and_samples(tmp_path: Path) -> None:
    report = await evaluation().run("m", "w", [Scripted("r0")], tmp_path)
    assert report.macro_mean == 1.0
    assert report.benchmarks["clips"].filters == ("4 of 5 rows",)
    assert read_report(tmp_path) == report
    assert len(read_predictions(tmp_path / "predictions.jsonl")) == 4
    samples = [json.loads(line) for line in (tmp_path / "samples_clips.jsonl").read_text().splitlines()]
    assert [(s["doc_id"], s["target"], s["accuracy"]) for s in samples] == [(n, "B", 1.0) for n in range(4)]
    assert samples[0]["filtered_resps"] == samples[0]["resps"][0]


async def test_nothing_is_asked_twice_and_nothing_of_other_weights_or_settings_is_used(tmp_path: Path) -> None:
    warm = replace(SETTINGS, temperature=1.0)
    for weights, settings, expected in (("w", SETTINGS, 4), ("w", SETTINGS, 0), ("v", SETTINGS, 4), ("w", warm, 4)):
        asked = evaluation(settings=settings)
        assert asked.pending(weights, tmp_path) == expected
        engine = Scripted("r0")
        await asked.run("m", weights, [engine] if expected else [], tmp_path)
        assert len(engine.asked) == expected


async def test_a_probe_has_predictions_of_its_own_and_stands_beside_the_plain_accuracy(tmp_path: Path) -> None:
    report = await evaluation(probes=("permute-options",)).run("m", "w", [Scripted("r0")], tmp_path)
    assert report.benchmarks["clips"].accuracy == 1.0
    assert report.probes["permute-options"]["clips"].accuracy == 0.0  # it always answers B, which has moved
    assert len(read_predictions(tmp_path / "permute-options" / "predictions.jsonl")) == 4


async def test_a_row_that_could_not_be_read_counts_as_failed_each_time(tmp_path: Path) -> None:
    odd = replace(CLIPS, unreadable=(Unreadable("clips/row 5", "row_invalid: no options"),))
    for _ in range(2):
        report = await evaluation(odd).run("m", "w", [Scripted("r0")], tmp_path)
        column = report.benchmarks["clips"]
        assert (column.rows, column.failed, column.accuracy, report.complete) == (5, 1, 0.8, False)
        assert len(read_predictions(tmp_path / "predictions.jsonl")) == 5


async def test_when_every_replica_dies_the_report_stands_and_is_incomplete(tmp_path: Path) -> None:
    def die(request_id: str) -> None:
        if request_id.endswith("/2"):
            raise EngineDied("gone")

    with pytest.raises(VideorlError, match="every replica died"):
        await evaluation(probes=("blind",)).run("m", "w", [Scripted("r0", die)], tmp_path)
    report = read_report(tmp_path)
    assert not report.complete
    assert report.benchmarks["clips"].rows == 4
    assert report.benchmarks["clips"].failures["not_attempted"] >= 1
