"""One question in every known format, and files to put rows in."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]

TEXT = "What colour is the car?"
OPTIONS = ("blue car", "red car", "green car")  # the right one is the second
LINES = "A. blue car\nB. red car\nC. green car"
INSTRUCTION = "\nPlease answer with the option's letter only."


def rows_by_format() -> dict[str, Row]:
    """The same question, answer 1, about the video clips/car.mp4 (or car.mp4 where a format gives an id)."""
    return {
        "verl": {
            "data_source": "cars",
            "prompt": [{"role": "user", "content": f"<video>{TEXT}\n{LINES}{INSTRUCTION}"}],
            "videos": [{"video": "clips/car.mp4", "fps": 2.0, "max_frames": None}],
            "reward_model": {"style": "rule", "ground_truth": "B"},
            "extra_info": {"index": 7},
        },
        "easyr1": {"problem": f"<video>{TEXT}\n{LINES}", "answer": "B", "videos": ["clips/car.mp4"], "images": []},
        "easyr1 (Long-RL)": {"problem": f"{TEXT}\n{LINES}", "answer": "red car", "videos": "clips/car.mp4"},
        "video-r1": {
            "problem_id": 3,
            "problem": TEXT,
            "options": ["A. blue car", "B. red car", "C. green car"],
            "solution": "<answer>B</answer>",
            "path": "./clips/car.mp4",
            "data_type": "video",
            "problem_type": "multiple choice",
        },
        "ms-swift": {
            "messages": [
                {"role": "system", "content": "You are helpful."},
                {"role": "user", "content": f"<video>{TEXT}\n(A) blue car\n(B) red car\n(C) green car"},
                {"role": "assistant", "content": "B"},
            ],
            "videos": ["clips/car.mp4"],
            "solution": "<answer>(B)</answer>",
        },
        "llava-video": {
            "id": "car-1",
            "conversations": [
                {"from": "human", "value": f"<image>\n{TEXT}\nA) blue car\nB) red car\nC) green car{INSTRUCTION}"},
                {"from": "gpt", "value": "B. red car."},
            ],
            "video": "clips/car.mp4",
        },
        "next-qa": {
            "video": "car",
            "question": TEXT,
            "answer": 1,
            "qid": 4,
            "type": "DC",
            **{f"a{i}": text for i, text in enumerate([*OPTIONS, "bus", "tram"])},
        },
        "star": {
            "question_id": "Interaction_T1_1",
            "question": TEXT,
            "video_id": "car",
            "start": 2.5,
            "end": 7.0,
            "answer": "red car",
            "choices": [{"choice_id": i, "choice": text} for i, text in enumerate(OPTIONS)],
        },
        "perception-test": {
            "video_name": "car",
            "question_id": "2",
            "question": TEXT,
            "options": list(OPTIONS),
            "answer_id": 1,
            "area": "physics",
        },
        "video-mme": {
            "video_id": "001",
            "videoID": "car",
            "question_id": "001-1",
            "question": TEXT,
            "options": ["A. blue car", "B. red car", "C. green car"],
            "answer": "B",
            "duration": "short",
            "domain": "Knowledge",
            "sub_category": "Traffic",
            "task_type": "Counting Problem",
        },
        "perceptioncomp": {
            "key": "12",
            "video_id": "car",
            "question": TEXT,
            **{f"answer_choice_{i}": text for i, text in enumerate(OPTIONS)},
            "answer_id": 1,
            "answer": "something else",
            "category": "traffic",
            "difficulty": 2,
        },
        "video-holmes": {
            "video ID": "car",
            "Question ID": 3,
            "Question Type": "SR",
            "Question": TEXT,
            "Options": {"A": "blue car", "B": "red car", "C": "green car"},
            "Answer": "B",
            "Explanation": "It is red.",
        },
    }


def write_rows(path: Path, rows: Sequence[Row]) -> Path:
    """As the file's suffix says; nested values in a CSV cell are JSON."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(list(rows), ensure_ascii=False, indent=1), encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            for row in rows:
                writer.writerow({k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in row.items()})
    return path
