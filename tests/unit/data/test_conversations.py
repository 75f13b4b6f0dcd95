from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from videorl.config.schema import DataConfig
from videorl.data.conversations import load_demonstrations
from videorl.errors import UserError


def conversation(answer: str = "<think>\nred\n</think>\nB", **fields: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": "<video>Which colour?"}, {"role": "assistant", "content": answer}]
    return {"messages": turns, "videos": ["a.mp4"], **fields}


def load(tmp_path: Path, *rows: dict[str, Any]):
    file = tmp_path / "traces.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_demonstrations(DataConfig(train=(file,)), seed=0)


def test_the_last_assistant_turn_is_the_demonstration_of_the_prompt_before_it(tmp_path):
    dataset, _ = load(tmp_path, conversation())
    question = dataset.question(0)
    assert (question.given_prompt, question.demonstration) == ("<video>Which colour?", "<think>\nred\n</think>\nB")
    assert [medium.path for medium in question.media] == [str(tmp_path / "a.mp4")]
    assert (question.options, question.answer) == ((), -1)


def test_a_conversation_that_does_not_end_with_an_answer_is_dropped_and_counted(tmp_path):
    unanswered = {"messages": [{"role": "user", "content": "Which?"}]}
    dataset, (report,) = load(tmp_path, conversation(), unanswered, conversation(answer=" "))
    assert len(dataset) == 1
    assert (report.read, report.kept, report.dropped) == (3, 1, {"row_invalid": 2})
    assert "row 2" in report.examples["row_invalid"][0]


def test_files_without_any_conversation_are_refused(tmp_path):
    with pytest.raises(UserError, match="no conversation is left"):
        load(tmp_path, {"messages": []})
