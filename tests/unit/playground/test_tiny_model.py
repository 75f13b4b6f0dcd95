"""The tiny model is an ordinary folder that the real classes load."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from videorl.playground.tiny_model import SPECIAL_TOKENS, THINK_TOKENS, make_tiny_model, make_tokenizer
from videorl.playground.vocabulary import WORDS


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    make_tiny_model(path, seed=1, tie=request.param)
    return path


def test_the_real_classes_load_it(folder: Path) -> None:
    model = AutoModelForImageTextToText.from_pretrained(folder, local_files_only=True)
    processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
    assert type(model).__name__ == "Qwen3VLForConditionalGeneration"
    assert type(processor).__name__ == "Qwen3VLProcessor"
    assert sum(p.numel() for p in model.parameters()) <= 2_000_000
    assert model.config.vision_config.deepstack_visual_indexes
    assert (model.lm_head.weight is model.get_input_embeddings().weight) == model.config.tie_word_embeddings


def test_the_same_seed_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    tied = '"tie_word_embeddings": true' in (folder / "config.json").read_text()
    torch.manual_seed(99)
    before = torch.random.get_rng_state()
    make_tiny_model(tmp_path / "again", seed=1, tie=tied)
    assert torch.equal(torch.random.get_rng_state(), before)
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name
    make_tiny_model(tmp_path / "other", seed=2, tie=tied)
    weights = "model.safetensors"
    assert (tmp_path / "other" / weights).read_bytes() != (folder / weights).read_bytes()


def test_every_word_is_one_token_and_any_text_survives() -> None:
    tokenizer = make_tokenizer(WORDS)
    for word in WORDS:
        assert len(tokenizer(word).input_ids) == 1, word
    for text in ("Which colour comes first?\nA. red\nB. blue", "Größe 猫 <x>\t end", "A. red (B) 0.25"):
        assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_think_tags_survive_decoding_and_control_tokens_do_not() -> None:
    tokenizer = make_tokenizer(WORDS)
    ids = tokenizer("<think>\nso red (B) .\n</think>\nB<|im_end|>").input_ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<think>\nso red (B) .\n</think>\nB"
    assert not {*THINK_TOKENS} & {*tokenizer.all_special_tokens}
    special = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    assert special == {*SPECIAL_TOKENS}
