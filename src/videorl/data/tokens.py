"""Which tokens a response may hold. Engine and trainer both build their softmax on this one answer.

A vision or control token inside a response would break the trainer's forward pass (a placeholder without a feature)
or mean something else than text when the response is read again, so none of them can be sampled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from jaxtyping import Int32
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from videorl.errors import UserError


@dataclass(slots=True, frozen=True)
class TokenRules:
    """What a model's responses end with, and what they may not hold. Made from its folder; read by engine, trainer."""

    stop: tuple[int, ...]
    forbidden: Int32[np.ndarray, "F"]  # ascending, disjoint from `stop`
    vocab_size: int  # rows of the head: the softmax runs over range(vocab_size) without `forbidden`

    @classmethod
    def of_model(cls, folder: Path) -> Self:
        """Read config.json, generation_config.json and the tokenizer of a Hugging Face model folder.

        Raises:
            UserError: the folder names no end token.
        """
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        vocab_size = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config().vocab_size
        stop = stop_token_ids(folder, tokenizer)
        return cls(stop, forbidden_token_ids(tokenizer, vocab_size, stop), vocab_size)

    def first_forbidden(self, token_ids: Int32[np.ndarray, "R"]) -> int | None:
        """The first forbidden token of a response, if it holds one."""
        found = np.flatnonzero(np.isin(token_ids, self.forbidden))
        return int(token_ids[found[0]]) if len(found) else None


def stop_token_ids(folder: Path, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The tokens that end a response: the generation config's, and the tokenizer's own end token.

    Raises:
        UserError: neither names one.
    """
    path = folder / "generation_config.json"
    named = json.loads(path.read_text()).get("eos_token_id") if path.is_file() else None
    own = tokenizer.convert_tokens_to_ids(str(tokenizer.eos_token)) if tokenizer.eos_token else None
    ids = {int(id) for id in [*(named if isinstance(named, list) else [named]), own] if isinstance(id, int)}
    if not ids:
        raise UserError(f"{folder}: no end token; name one as eos_token_id in generation_config.json")
    return tuple(sorted(ids))


def forbidden_token_ids(
    tokenizer: PreTrainedTokenizerBase, vocab_size: int, stop_ids: Iterable[int]
) -> Int32[np.ndarray, "F"]:
    """Every special, vision and control token that is no stop token, and every id without a token behind it.

    Control tokens are the added tokens that are special or written `<|like this|>`; `<think>` is neither. The head has
    more rows than the tokenizer has tokens (151,936 against 151,669 in Qwen3-VL): the rest are ids without a token.

    Returns:
        ascending ids below `vocab_size`.
    """
    control = {
        id
        for id, token in tokenizer.added_tokens_decoder.items()
        if token.special or (token.content.startswith("<|") and token.content.endswith("|>"))
    }
    without_token = set(range(vocab_size)) - set(tokenizer.get_vocab().values())
    forbidden = (control | without_token) - set(stop_ids)
    return np.array(sorted(id for id in forbidden if id < vocab_size), dtype=np.int32)
