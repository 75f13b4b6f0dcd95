"""Checking 100,000 rows, against the minute that it may take, and the memory that fewer and more rows take at most.

python benchmarks/data_check.py
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

LIMIT = 60.0  # seconds for TIMED rows
TIMED = 100_000
ROWS = (10_000, TIMED, 400_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        measured = {rows: in_process(write_rows(Path(folder) / f"{rows}.parquet", rows)) for rows in ROWS}
    timed = measured[TIMED]
    document = {
        "name": "data_check",
        "ours": timed["seconds"],
        "theirs": LIMIT,
        "ratio": LIMIT / timed["seconds"],
        "unit": "seconds",
        "counts": {"rows": TIMED, "cpu_seconds": timed["cpu_seconds"]}
        | {f"peak_mb_of_{rows}_rows": measured[rows]["peak_mb"] for rows in ROWS},
        "machine": f"{platform.processor() or platform.machine()}, {psutil.cpu_count()} cores",
    }
    print(json.dumps(document, indent=2))


def in_process(file: Path) -> dict[str, float]:
    """A process of its own for each measurement, so that the memory is its own."""
    command = [sys.executable, __file__, "--measure", str(file)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(file: Path) -> dict[str, float]:
    begun, cpu_begun = time.monotonic(), time.process_time()
    check_questions(read_questions([file]), FrameSampling())
    return {
        "seconds": round(time.monotonic() - begun, 3),
        "cpu_seconds": round(time.process_time() - cpu_begun, 3),
        "peak_mb": round(peak_bytes() / 1e6, 1),
    }


def peak_bytes() -> int:
    """Of this program alone: the peak that getrusage gives goes back to before exec, to the parent's."""
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


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
