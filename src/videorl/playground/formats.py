"""The playground's questions in the formats that people bring.

Media paths are relative to the playground's folder.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from videorl.playground.questions import Item

LETTERS = "ABCDEF"


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
        return [f"{LETTERS[i]}. {option}" for i, option in enumerate(self.item.options)]


def write_verl(path: Path, records: Sequence[Record]) -> None:
    """Rows as verl reads them: prompt, videos, reward_model, data_source, extra_info."""
    rows = [
        {
            "data_source": f"playground/{record.item.family}",
            "prompt": [{"role": "user", "content": "\n".join(["<video>" + record.item.text, *record.option_lines])}],
            "videos": [{"video": record.video}],
            "ability": record.item.family,
            "reward_model": {"style": "rule", "ground_truth": record.letter},
            "extra_info": {"index": index, "id": record.id},
        }
        for index, record in enumerate(records)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)


def write_video_r1(path: Path, records: Sequence[Record]) -> None:
    """One JSON list as Video-R1 has it: problem, options, solution, path."""
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
    path.write_text(json.dumps(rows, indent=1) + "\n")
