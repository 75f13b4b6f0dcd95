from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from videorl.data.prompt import PromptBuilder
from videorl.data.templates import as_given
from videorl.playground.tiny_model import make_tiny_model
from videorl.rollout.demonstrations import Demonstrations
from videorl.types import DroppedQuestion, Group, IssuedQuestion, Question


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model")
    make_tiny_model(path, seed=0)
    return path


def demonstrations(folder: Path, max_tokens: int) -> Demonstrations:
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return Demonstrations(None, PromptBuilder(folder, as_given, 128), tokenizer, max_tokens)  # no media: no source


def issued(answer: str) -> IssuedQuestion:
    asked = Question("q", "demonstration", "Why?", (), -1, (), "s", given_prompt="Why?", demonstration=answer)
    return IssuedQuestion(0, 0, asked)


async def test_a_given_response_becomes_the_only_branch_and_ends_with_the_end_token(folder):
    group = await demonstrations(folder, 64).run(issued("so red <|im_end|> B"), lambda: 3)
    assert isinstance(group, Group)
    (response,) = group.responses
    ids = response.rollout.token_ids
    end = AutoTokenizer.from_pretrained(folder, local_files_only=True).eos_token_id
    assert np.flatnonzero(ids == end).tolist() == [len(ids) - 1]  # what the text spells is no end token
    assert set(response.rollout.versions) == {3}


async def test_a_longer_response_is_dropped_never_cut(folder):
    dropped = await demonstrations(folder, 3).run(issued("one two three four"), lambda: 0)
    assert isinstance(dropped, DroppedQuestion)
    assert dropped.drop.reason == "response_too_long"
