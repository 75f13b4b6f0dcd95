"""A group as one packed row, beside n separate sequences: forward and backward of one update, in one process.

Both go through the same trainer rank; the separate sequences are the same responses as n groups of one branch, each
with its own prompt and its own pass through the vision tower. Runs alternate; the ratio is the median of pairs.

    python benchmarks/branches.py [--response 92] [--frames 24] [--pairs 5]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from builders_train import FramesInMemory, make_group, tiny_config
from trainer_ranks import ObservedRank, single_rank
from videorl.playground.tiny_model import make_tiny_model
from videorl.train.rank import RankUpdate
from videorl.types import TrainGroup, UpdateBatch, UpdateReport

RESPONSES = 8


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--response", type=int, default=92, help="tokens of each response")
    arguments.add_argument("--frames", type=int, default=24)
    arguments.add_argument("--pairs", type=int, default=5)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        make_tiny_model(model, seed=0)
        print(json.dumps(measure(model, given.response, given.frames, given.pairs), indent=2))


def measure(model: Path, response: int, frames: int, pairs: int) -> dict[str, object]:
    source = FramesInMemory()
    long = {"max_prompt_tokens": 4_096}, {"max_response_tokens": 4_096}, {"token_budget": 65_536}
    config = tiny_config(model, data=long[0], rollout=long[1], trainer=long[2] | {"logprob_chunk": 1_024})
    with single_rank(config, source) as rank:
        group = make_group(source, rank.family.config, 0, [response] * RESPONSES, videos=0)
        video = source.add(0, count=frames, height=224, width=416)
        group = replace(group, prompt_ids=with_video(group, rank, frames), frames=(video,))
        separate = tuple(replace(group, key=str(i), branches=(b,)) for i, b in enumerate(group.branches))
        ours, theirs = [], []
        for _ in range(pairs + 1):
            ours.append(update(rank, (group,)))
            theirs.append(update(rank, separate))
    seconds = [[report.seconds for report in reports[1:]] for reports in (ours, theirs)]  # the first pair warms up
    return {
        "name": "branches",
        "ours": statistics.median(seconds[0]),
        "theirs": statistics.median(seconds[1]),
        "ratio": statistics.median(b / a for a, b in zip(*seconds, strict=True)),
        "unit": f"s an update of one group of {RESPONSES} x {response} tokens, {frames} frames of 416x224",
        "counts": {"ours": dict(ours[0].counts), "theirs": dict(theirs[0].counts)},
        "machine": f"{platform.machine()}, {psutil.cpu_count()} cores, one thread, float32",
    }


def with_video(group: TrainGroup, rank: ObservedRank, frames: int):
    """The group's prompt with a video of 13x7 tokens for each pair of frames in front."""
    import numpy as np

    c = rank.family.config
    pair = [30, 31, c.vision_start_token_id, *[c.video_token_id] * (13 * 7), c.vision_end_token_id]
    return np.concatenate([np.array(pair * (frames // 2), np.int32), group.prompt_ids])


def update(rank: ObservedRank, groups: tuple[TrainGroup, ...]) -> UpdateReport:
    batch = UpdateBatch(1, 0, 0, (), sum(g.response_tokens for g in groups))
    return rank.update(RankUpdate(batch, [groups]))


if __name__ == "__main__":
    main()
