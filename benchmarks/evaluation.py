"""Rows a second of evaluation, beside a plain loop of transformers' `generate` over the same rows.

Both start from video files and end with scored answers, greedy, float32 on CPU, the same prompts and token limit. Ours
is one vLLM replica after it has started; the loop decodes a row's video, builds its inputs and generates, row by row,
with the model loaded. The benchmark asks three questions about each video, as Video-MME does.

    python benchmarks/evaluation.py [--model DIR --questions FILE --media-root DIR] [--rows 60]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from videorl.config import Config
from videorl.data.codecs import Codec
from videorl.data.decoding import decode
from videorl.data.pool import DecoderPool
from videorl.data.prompt import PromptBuilder, VideoInput, video_input
from videorl.data.sampling import sampling_for
from videorl.data.store import FrameStore
from videorl.data.templates import letter
from videorl.data.tokens import TokenRules
from videorl.eval.benchmarks import Benchmark, load_benchmark
from videorl.eval.evaluation import Evaluation
from videorl.eval.predictions import read_predictions, weights_digest
from videorl.eval.prepare import RowPreparer
from videorl.eval.run_folder import ModelChoice
from videorl.eval.settings import EvalSettings, replica_settings
from videorl.eval.setup import evaluation_config
from videorl.rewards.reward import MultipleChoice
from videorl.types import FrameRef, FrameSampling, Media, Question

SETTINGS = (
    "data.max_frames=8",
    "data.fps=2.0",
    "data.max_pixels=8192",
    "data.max_prompt_tokens=512",
    "data.decode_workers=1",
    "eval.max_response_tokens=64",
    "rollout.block_size=32",
    "cluster.device=cpu",
)


class CountingPool(DecoderPool):
    """A pool that counts what it decodes."""

    decoded = 0

    def decode_to(self, target: Path, media: Media, sampling: FrameSampling, codec: Codec) -> None:
        self.decoded += 1
        super().decode_to(target, media, sampling, codec)


async def ours(config: Config, model: Path, benchmark: Benchmark, out: Path) -> tuple[float, float, int]:
    """(seconds from the first row to the report, seconds that the engine took to start, videos decoded)."""
    from videorl.rollout.vllm_engine import VllmEngine

    pool = CountingPool(config.data.decode_workers, config.data.decode_timeout)
    store = FrameStore(config.store_dir, config.data.frame_sampling, pool)
    began = time.perf_counter()
    engine = await VllmEngine.start(replica_settings(config, model)[0], store, "bench")
    started = time.perf_counter() - began
    try:
        prompts = PromptBuilder(model, letter, config.data.max_prompt_tokens)
        prepare = RowPreparer(store, prompts, "train", {benchmark.name: benchmark.format}, None)
        settings = EvalSettings.of_config(config, "train", subtitles=False)
        evaluation = Evaluation([benchmark], settings, prepare, MultipleChoice())
        began = time.perf_counter()
        await evaluation.run(str(model), weights_digest(model), [engine], out)
        return time.perf_counter() - began, started, pool.decoded
    finally:
        await engine.close()
        store.close()


def plain_loop(config: Config, folder: Path, questions: Sequence[Question]) -> tuple[float, dict[str, str]]:
    """(seconds, response by question id) of one `generate` a row."""
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
    processor: Any = AutoProcessor.from_pretrained(folder, local_files_only=True)
    prompts, judge = PromptBuilder(folder, letter, config.data.max_prompt_tokens), MultipleChoice()
    limit, masked = config.eval.max_response_tokens, TokenRules.of_model(folder).forbidden.tolist()
    responses: dict[str, str] = {}
    began = time.perf_counter()
    for question in questions:
        media = question.media[0]
        frames = decode(media, sampling_for(media, config.data.frame_sampling))
        prompt = prompts.build(question, [(FrameRef("", media, config.data.frame_sampling), frames)])
        video = video_input(frames)
        inputs = processor(
            text=[prompt.text],
            videos=[video.pixels],
            video_metadata=[video.metadata],
            return_tensors="pt",
            **VideoInput.PROCESSOR_KWARGS,
        )
        with torch.no_grad():
            ids = model.generate(**inputs, max_new_tokens=limit, do_sample=False, suppress_tokens=masked)
        responses[question.id] = processor.decode(ids[0, inputs.input_ids.shape[1] :], skip_special_tokens=True)
        judge(question, responses[question.id], thinks=prompt.thinks)
    return time.perf_counter() - began, responses


def three_each(benchmark: Benchmark, rows: int) -> Benchmark:
    """The first rows, three about each video: two more wordings of every third question."""
    wordings = ("", "Look closely. ", "Watch the whole clip. ")
    asked = [
        replace(q, id=f"{q.id}/{i}", text=wording + q.text)
        for q in benchmark.questions[: -(-rows // 3)]
        for i, wording in enumerate(wordings)
    ]
    return replace(benchmark, questions=tuple(asked[:rows]))


def measure(model: Path, questions: Path, media_root: Path | None, rows: int) -> dict[str, Any]:
    """One run of both; the document that is printed."""
    benchmark = three_each(load_benchmark("rows", questions, media_root=media_root), rows)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        config = evaluation_config(ModelChoice(model), out, overrides=SETTINGS)
        seconds, started, decoded = asyncio.run(ours(config, model, benchmark, out))
        mine = {p.id: p.response for p in read_predictions(out / "predictions.jsonl")}
    torch.set_num_threads(1)  # as the engine's worker has
    loop_seconds, theirs = plain_loop(config, model, benchmark.questions)
    count = len(benchmark.questions)
    return {
        "name": "evaluation",
        "ours": count / seconds,
        "theirs": count / loop_seconds,
        "ratio": loop_seconds / seconds,
        "unit": "rows/s",
        "counts": {
            "rows": count,
            "videos": len({q.media[0].path for q in benchmark.questions}),
            "decoded": {"ours": decoded, "theirs": count},
            "engine_start_seconds": started,
            "same_responses": sum(mine[i] == text for i, text in theirs.items()),
        },
        "machine": f"{platform.processor() or platform.machine()}, {psutil.cpu_count()} cores",
    }


def main() -> None:
    os.environ["VLLM_LOGGING_STREAM"] = "ext://sys.stderr"  # standard output is the document's
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("playground/base"))
    parser.add_argument("--questions", type=Path, default=Path("playground/train-video-r1.json"))
    parser.add_argument("--media-root", type=Path)
    parser.add_argument("--rows", type=int, default=60)
    options = parser.parse_args()
    print(json.dumps(measure(options.model, options.questions, options.media_root, options.rows), indent=2))


if __name__ == "__main__":
    main()
