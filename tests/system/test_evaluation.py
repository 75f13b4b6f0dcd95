"""Evaluation with real engines, real videos and the real frame store, on a tiny model with random weights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import pytest_asyncio

from builders_data import even_times, write_clip
from videorl.cli.main import run as videorl
from videorl.config import Config, dump_toml
from videorl.data.codecs import Codec
from videorl.data.pool import DecoderPool
from videorl.data.prompt import PromptBuilder
from videorl.data.store import FrameStore
from videorl.data.templates import letter
from videorl.eval.benchmarks import Benchmark, load_benchmark
from videorl.eval.evaluation import Evaluation
from videorl.eval.predictions import Prediction, read_predictions, weights_digest
from videorl.eval.prepare import RowPreparer
from videorl.eval.report_file import read_report
from videorl.eval.run_folder import ModelChoice, RunFolder
from videorl.eval.settings import EvalSettings, replica_settings
from videorl.eval.setup import evaluation_config
from videorl.export.model import export_model
from videorl.playground.tiny_model import make_tiny_model
from videorl.rewards.reward import MultipleChoice
from videorl.rollout.engine import Engine
from videorl.rollout.vllm_engine import VllmEngine
from videorl.types import FrameSampling, Media

pytestmark = pytest.mark.slow

OVERRIDES = (
    "data.max_frames=4",
    "data.max_pixels=8192",
    "data.max_prompt_tokens=512",
    "data.decode_workers=1",
    "eval.max_response_tokens=24",
    "rollout.block_size=32",
    "rollout.kv_cache_gib=0.25",
    "cluster.device=cpu",
)


def write_benchmark(folder: Path, rows: int, broken: Sequence[int] = (), rate: float = 8.0) -> Path:
    """Video-R1 rows about clips of their own; those in `broken` are no videos. Another rate gives other clips."""
    folder.mkdir(exist_ok=True)
    lines = []
    for number in range(rows):
        clip = folder / f"clip-{number}.mp4"
        if number in broken:
            clip.write_bytes(b"not a video")
        else:
            write_clip(clip, even_times(8 + 4 * number, rate))
        options = [*(f"{letter}. answer {number} {letter}" for letter in "ABC"), "D. the <video> tag"]
        problem = f"Which one is it in clip {number}?"
        lines.append({"problem": problem, "options": options, "solution": "<answer>B</answer>", "path": clip.name})
    path = folder / "rows.json"
    path.write_text(json.dumps(lines))
    return path


@dataclass(slots=True)
class Bench:
    """Replicas of one model: the checkpoint itself, its float32 export, and the checkpoint once more."""

    checkpoint: Path
    export: Path
    config: Config
    store: FrameStore
    engines: tuple[VllmEngine, VllmEngine, VllmEngine]

    def evaluation(self, *benchmarks: Benchmark, probes: Sequence[str] = ()) -> Evaluation:
        prompts = PromptBuilder(self.checkpoint, letter, self.config.data.max_prompt_tokens)
        formats = {benchmark.name: benchmark.format for benchmark in benchmarks}
        prepare = RowPreparer(self.store, prompts, "train", formats, None)
        settings = EvalSettings.of_config(self.config, "train", subtitles=False)
        return Evaluation(benchmarks, settings, prepare, MultipleChoice(), probes)

    async def answers(self, evaluation: Evaluation, engines: Sequence[Engine], out: Path) -> list[Prediction]:
        await evaluation.run("tiny", weights_digest(self.checkpoint), engines, out)
        return sorted(read_predictions(out / "predictions.jsonl"), key=lambda p: (p.benchmark, p.id))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    root = tmp_path_factory.mktemp("evaluation")
    checkpoint, export = root / "hf", root / "export"
    make_tiny_model(checkpoint, seed=4)
    config = evaluation_config(ModelChoice(checkpoint), root / "out", overrides=OVERRIDES)
    frames = config.data.frame_sampling
    export_model(checkpoint, checkpoint, export, frames=frames, dtype="float32", run="..", step=1, config_toml="")
    store = FrameStore.from_config(config.data, config.store_dir)
    folders = {"checkpoint": checkpoint, "export": export, "again": checkpoint}
    engines = [
        await VllmEngine.start(replica_settings(config, folder)[0], store, name) for name, folder in folders.items()
    ]
    yield Bench(checkpoint, export, config, store, (engines[0], engines[1], engines[2]))
    await asyncio.gather(*(engine.close() for engine in engines))
    store.close()


async def test_one_two_and_three_replicas_and_the_export_give_the_same_predictions(
    bench: Bench, tmp_path: Path
) -> None:
    evaluation = bench.evaluation(load_benchmark("clips", write_benchmark(tmp_path / "data", 7)))
    checkpoint, export, again = bench.engines
    one = await bench.answers(evaluation, [checkpoint], tmp_path / "one")
    assert len(one) == 7
    assert all(p.response for p in one)
    assert len({p.response for p in one}) > 1  # they are about different clips
    assert await bench.answers(evaluation, [export], tmp_path / "exported") == one
    assert await bench.answers(evaluation, [checkpoint, export], tmp_path / "two") == one
    assert await bench.answers(evaluation, [checkpoint, export, again], tmp_path / "three") == one


async def test_greedy_answers_do_not_depend_on_what_else_is_asked(bench: Bench, tmp_path: Path) -> None:
    clips = load_benchmark("clips", write_benchmark(tmp_path / "data", 6))
    engine = bench.engines[:1]
    alone = [
        (
            await bench.answers(
                bench.evaluation(replace(clips, questions=(q,))), engine, tmp_path / q.id.replace("/", "-")
            )
        )[0]
        for q in clips.questions
    ]
    other = replace(clips, name="other", questions=clips.questions[::-1])
    together = await bench.answers(bench.evaluation(other, clips), engine, tmp_path / "together")
    assert sorted(alone, key=lambda p: p.id) == [p for p in together if p.benchmark == "clips"]


async def test_broken_videos_fail_their_rows_and_only_those_run_after_repair(bench: Bench, tmp_path: Path) -> None:
    path = write_benchmark(tmp_path / "data", 10, broken=(2, 5, 9))
    evaluation, out = bench.evaluation(load_benchmark("clips", path)), tmp_path / "out"
    await bench.answers(evaluation, bench.engines[:1], out)
    column = read_report(out).benchmarks["clips"]
    assert (column.rows, column.failed, column.failures) == (10, 3, {"video_broken": 3})
    assert not read_report(out).complete
    write_benchmark(tmp_path / "data", 10)
    asked: list[str] = []
    weights = weights_digest(bench.checkpoint)
    await evaluation.run("tiny", weights, bench.engines[:1], out, progress=lambda p: asked.append(p.id))
    assert sorted(asked) == sorted(q.id for i, q in enumerate(evaluation.benchmarks[0].questions) if i in (2, 5, 9))
    assert read_report(out).complete
    assert len(read_predictions(out / "predictions.jsonl")) == 10


async def test_probes_change_what_is_seen(bench: Bench, tmp_path: Path) -> None:
    probes = ("blind", "shuffle-frames", "permute-options")
    evaluation = bench.evaluation(load_benchmark("clips", write_benchmark(tmp_path / "data", 4)), probes=probes)
    plain = await bench.answers(evaluation, bench.engines[:1], tmp_path)
    assert set(read_report(tmp_path).probes) == set(probes)
    for probe in probes:
        probed = sorted(read_predictions(tmp_path / probe / "predictions.jsonl"), key=lambda p: p.id)
        assert [p.id for p in probed] == [p.id for p in plain]
        assert {p.response for p in probed} != {p.response for p in plain}, probe
        assert [bool(p.frames) for p in probed] == [probe != "blind"] * 4
        if probe == "shuffle-frames":
            assert not {key for p in probed for key in p.frames} & {key for p in plain for key in p.frames}


async def test_frames_are_decoded_once_for_a_video_however_many_questions(bench: Bench, tmp_path: Path) -> None:
    path = write_benchmark(tmp_path / "data", 2, rate=10.0)
    rows = json.loads(path.read_text())
    path.write_text(json.dumps([{**row, "problem": f"Question {i}?"} for row in rows for i in range(3)]))
    decoded: list[str] = []

    class Counting(DecoderPool):
        def decode_to(self, target: Path, media: Media, sampling: FrameSampling, codec: Codec) -> None:
            decoded.append(media.path)
            super().decode_to(target, media, sampling, codec)

    data = bench.config.data
    counting = FrameStore(bench.config.store_dir, data.frame_sampling, Counting(1, 60.0), data.store_codec)
    evaluation = bench.evaluation(load_benchmark("clips", path))
    prepare = replace(evaluation.prepare, source=counting)  # type: ignore[type-var]
    predictions = await bench.answers(replace(evaluation, prepare=prepare), bench.engines, tmp_path / "out")
    counting.close()
    assert len(predictions) == 6
    assert sorted(decoded) == [str(tmp_path / "data" / f"clip-{i}.mp4") for i in range(2)]


def write_run(folder: Path, benchmark: Path) -> Path:
    """A finished run whose second checkpoint holds its base again."""
    make_tiny_model(folder / "base", seed=4)
    config = evaluation_config(
        ModelChoice(folder / "base"),
        folder / "run",
        overrides=[*OVERRIDES, f"eval.benchmarks={{clips = {json.dumps(str(benchmark))}}}"],
    )
    (folder / "run").mkdir()
    (folder / "run" / "config.toml").write_text(dump_toml(config))
    (folder / "run" / "status.json").write_text('{"state": "finished"}')
    for step, seed in ((1, 5), (2, 4)):
        make_tiny_model(RunFolder(folder / "run").model(step), seed=seed)
        (RunFolder(folder / "run").model(step).parent / "COMPLETE").touch()
    return folder / "run"


def test_the_watcher_asks_each_checkpoint_with_its_own_weights_and_exits_with_1_when_rows_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunFolder(write_run(tmp_path, write_benchmark(tmp_path / "data", 4, broken=(1,))))
    assert videorl(["eval", "--watch", str(run.path), "--every", "1", "--json"]) == 1
    said = capsys.readouterr()
    assert said.err.splitlines()[-1] == ("videorl: incomplete evaluations: steps [0, 1, 2]; watch again to retry them")
    started, other, again = (
        {p.id: p.response for p in read_predictions(run.evaluation(step) / "predictions.jsonl")} for step in range(3)
    )
    assert started == again  # weights that came with the engine, and the same ones published to it
    assert len(started) == len(other) == 4
    assert sum(started[row] != other[row] for row in started) == 3
    for name in ("predictions.jsonl", "report.json", "report.md", "samples_clips.jsonl"):
        assert (run.evaluation(0) / name).is_file()
    report = read_report(run.evaluation(2))
    assert (report.benchmarks["clips"].failed, report.complete) == (1, False)
    assert run.keeper() is not None
