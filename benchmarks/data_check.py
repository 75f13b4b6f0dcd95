"""Checking 100,000 rows, against the minute that it may take.

    python benchmarks/data_check.py [--rows 100000]

Beside it, the memory that a tenth of the rows and all of them take at most: of a row only a few numbers are kept.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from videorl.data.check import check_questions
from videorl.data.questions import read_questions
from videorl.types import FrameSampling

LIMIT = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--measure", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        whole = write_rows(Path(folder) / "rows.parquet", options.rows)
        tenth = write_rows(Path(folder) / "tenth.parquet", options.rows // 10)
        all_rows, few_rows = in_process(whole), in_process(tenth)
    counts = {"rows": options.rows, "peak_mb": all_rows["peak_mb"], "peak_mb_of_a_tenth": few_rows["peak_mb"]}
    document = {
        "name": "data_check",
        "ours": all_rows["seconds"],
        "theirs": LIMIT,
        "ratio": LIMIT / all_rows["seconds"],
        "unit": "seconds",
        "counts": counts,
        "machine": f"{platform.processor() or platform.machine()}, {psutil.cpu_count()} cores",
    }
    print(json.dumps(document, indent=2))


def in_process(file: Path) -> dict[str, float]:
    """A process of its own for each measurement, so that the memory is its own."""
    command = [sys.executable, __file__, "--measure", str(file)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(file: Path) -> dict[str, float]:
    begun = time.monotonic()
    check_questions(read_questions([file]), FrameSampling())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"seconds": round(time.monotonic() - begun, 3), "peak_mb": round(peak, 1)}


def write_rows(path: Path, count: int) -> Path:
    with pq.ParquetWriter(path, pa.Table.from_pylist([row(0)]).schema) as writer:
        for start in range(0, count, 1000):
            writer.write_table(pa.Table.from_pylist([row(i) for i in range(start, min(start + 1000, count))]))
    return path


def row(number: int) -> dict[str, Any]:
    """As verl's parquets have them."""
    question = f"<video>Question {number}: what happens after the man in the red coat has left the room?"
    return {
        "data_source": "benchmark",
        "prompt": [
            {"role": "user", "content": f"{question}\nA. nothing\nB. a dog comes in\nC. he comes back\nD. rain"}
        ],
        "videos": [{"video": f"clips/{number // 3}.mp4", "fps": 1.0, "max_frames": 24}],
        "reward_model": {"style": "rule", "ground_truth": "ABCD"[number % 4]},
        "extra_info": {"index": number},
    }


if __name__ == "__main__":
    main()
