"""The playground's questions in the formats that people bring.

A writer takes the records of one file. Media paths are relative to the playground's folder; the benchmarks name their
videos by stem, as the originals do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from videorl.playground.questions import MULTI_FRAME, Item
from videorl.playground.traces import LETTERS


@dataclass(slots=True, frozen=True)
class Record:
    """An item whose clip lies in a file."""

    id: str
    video: str  # path of the clip, relative to the playground
    item: Item

    @property
    def letter(self) -> str:
        return LETTERS[self.item.answer]

    @property
    def option_lines(self) -> list[str]:
        return [f"{label}. {option}" for label, option in zip(LETTERS, self.item.options, strict=False)]

    @property
    def stated(self) -> str:
        return "\n".join([self.item.text, *self.option_lines])


def write_verl(path: Path, records: Sequence[Record]) -> None:
    """Parquet as verl reads it: prompt, videos, reward_model, data_source, extra_info."""
    rows = [
        {
            "data_source": f"playground/{record.item.family}",
            "prompt": [{"role": "user", "content": f"<video>{record.stated}"}],
            "videos": [{"video": record.video}],
            "ability": record.item.family,
            "reward_model": {"style": "rule", "ground_truth": record.letter},
            "extra_info": {"index": index, "id": record.id},
        }
        for index, record in enumerate(records)
    ]
    _write_parquet(path, rows)


def write_video_r1(path: Path, records: Sequence[Record]) -> None:
    """A JSON list as Video-R1 has it: problem, options, solution, path."""
    rows = [
        {
            "problem_id": index,
            "problem": record.item.text,
            "data_type": "video",
            "problem_type": "multiple choice",
            "options": record.option_lines,
            "solution": f"<answer>{record.letter}</answer>",
            "path": f"./{record.video}",
            "data_source": f"playground/{record.item.family}",
        }
        for index, record in enumerate(records)
    ]
    _write_json(path, rows)


def write_conversations(
    path: Path, records: Sequence[Record], prompts: Sequence[str], responses: Sequence[str], *, videos: bool
) -> None:
    """JSON lines of one user turn and one answer each, as ms-swift has them: messages and videos.

    Args:
        prompts: the whole user's turn of each record without its video.
        responses: without the end token.
        videos: false: the questions are asked without their clips.
    """
    mark = "<video>" if videos else ""
    rows = [
        {
            "messages": [
                {"role": "user", "content": mark + prompt},
                {"role": "assistant", "content": response},
            ],
            "videos": [record.video] if videos else [],
        }
        for record, prompt, response in zip(records, prompts, responses, strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_video_mme(path: Path, records: Sequence[Record]) -> None:
    """Parquet as Video-MME has it: four options with their labels, the answer a letter."""
    rows = [
        {
            "video_id": f"{index:03d}",
            "duration": "short",
            "domain": "Playground",
            "sub_category": record.item.family,
            "url": "",
            "videoID": Path(record.video).stem,
            "question_id": f"{index:03d}-1",
            "task_type": "Temporal Perception" if record.item.family in MULTI_FRAME else "Attribute Perception",
            "question": record.item.text,
            "options": record.option_lines,
            "answer": record.letter,
        }
        for index, record in enumerate(records)
    ]
    _write_parquet(path, rows)


def write_perceptioncomp(path: Path, records: Sequence[Record]) -> None:
    """A JSON list as PerceptionComp has it: five options in fields of their own, the answer a 0-based index."""
    rows = [
        {
            "key": str(index + 1),
            "video_id": Path(record.video).stem,
            "question": record.item.text,
            **{f"answer_choice_{i}": option for i, option in enumerate(record.item.options)},
            "answer_id": record.item.answer,
            "answer": record.item.value,
            "category": record.item.family,
            "difficulty": 1 + (record.item.family in MULTI_FRAME),
        }
        for index, record in enumerate(records)
    ]
    _write_json(path, rows)


def write_video_holmes(path: Path, records: Sequence[Record]) -> None:
    """A JSON list as Video-Holmes has it: six options by letter, the answer a letter."""
    rows = [
        {
            "video ID": Path(record.video).stem,
            "Question ID": 1,
            "Question Type": record.item.family,
            "Question": record.item.text,
            "Options": dict(zip(LETTERS, record.item.options, strict=True)),
            "Answer": record.letter,
            "Explanation": f"The seconds show {', '.join(record.item.scene.seconds)}.",
        }
        for record in records
    ]
    _write_json(path, rows)


def _write_parquet(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def _write_json(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n")
