from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from videorl.data.tokens import TokenRules, forbidden_token_ids, stop_token_ids
from videorl.errors import UserError
from videorl.playground.tiny_model import SPECIAL_TOKENS, make_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    make_tiny_model(folder, seed=0)
    return folder


def test_vision_and_control_tokens_are_forbidden_and_end_and_think_tokens_are_not(folder: Path) -> None:
    rules = TokenRules.of_model(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    forbidden = set(tokenizer.convert_ids_to_tokens(rules.forbidden.tolist()))
    assert forbidden == set(SPECIAL_TOKENS) - {"<|im_end|>", "<|endoftext|>"}
    assert set(tokenizer.convert_ids_to_tokens(rules.stop)) == {"<|im_end|>", "<|endoftext|>"}


def test_control_tokens_that_are_not_marked_special_are_forbidden_too(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<|fim_prefix|>", "<tool_call>"])
    forbidden = forbidden_token_ids(tokenizer, len(tokenizer), stop_ids=())
    assert tokenizer.convert_tokens_to_ids("<|fim_prefix|>") in forbidden
    assert tokenizer.convert_tokens_to_ids("<tool_call>") not in forbidden


def test_head_rows_without_a_token_are_forbidden(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    size = len(tokenizer)
    forbidden = forbidden_token_ids(tokenizer, size + 3, stop_ids=())
    assert forbidden[-3:].tolist() == [size, size + 1, size + 2]
    assert (np.diff(forbidden) > 0).all()


def test_the_first_forbidden_token_of_a_response_is_found(folder: Path) -> None:
    rules = TokenRules.of_model(folder)
    bad = int(rules.forbidden[2])
    assert rules.first_forbidden(np.array([1, bad, int(rules.forbidden[0])], np.int32)) == bad
    assert rules.first_forbidden(np.array([1, *rules.stop], np.int32)) is None


def test_a_generation_config_may_name_one_end_token_or_several(folder: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    path = tmp_path / "generation_config.json"
    for named, expected in [(7, {7}), ([7, 9], {7, 9}), (None, set())]:
        path.write_text(json.dumps({"eos_token_id": named}))
        assert set(stop_token_ids(tmp_path, tokenizer)) == expected | {tokenizer.eos_token_id}


def test_a_model_without_any_end_token_is_an_error_of_the_user(folder: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.eos_token = None
    with pytest.raises(UserError, match="eos_token_id"):
        stop_token_ids(tmp_path, tokenizer)
