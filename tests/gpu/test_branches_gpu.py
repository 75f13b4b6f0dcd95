"""The trainer on a GPU: branch parity in bfloat16 at the 8B model's layer shapes, with fewer layers.

Run by hand on a machine with a CUDA device: `python -m pytest tests/gpu -s`. Prints the time of packed rows beside
separate sequences.
"""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from builders_train import FramesInMemory, make_group, tiny_config

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A two-layer text model and a two-block vision tower with the 8B model's widths, randomly initialised."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    from videorl.playground.tiny_model import make_tiny_model

    path = tmp_path_factory.mktemp("model")
    make_tiny_model(path, seed=0)
    tree = json.loads((path / "config.json").read_text())
    tree["text_config"] |= {
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 2,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
    }
    tree["text_config"]["rope_parameters"] |= {"mrope_section": [24, 20, 20]}
    tree["text_config"].pop("layer_types", None)
    tree["vision_config"] |= {
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "depth": 2,
        "out_hidden_size": 4096,
        "deepstack_visual_indexes": [0, 1],
    }
    torch.manual_seed(0)
    Qwen3VLForConditionalGeneration(Qwen3VLConfig(**tree)).to(torch.bfloat16).save_pretrained(path)
    return path


def test_packed_rows_equal_separate_sequences_in_bfloat16_and_take_less_time(folder):
    from trainer_ranks import single_rank
    from videorl.train.rank import RankUpdate
    from videorl.types import UpdateBatch

    source = FramesInMemory()
    config = tiny_config(
        folder,
        model={"dtype": "bfloat16"},
        data={"max_prompt_tokens": 8192},
        rollout={"max_response_tokens": 8192},
        trainer={"token_budget": 65_536},
    )
    with single_rank(config, source, torch.device("cuda")) as rank:
        group = make_group(source, rank.family.config, 1, [92] * 8)
        separate = tuple(replace(group, key=str(i), branches=(b,)) for i, b in enumerate(group.branches))
        (packed,), apart = rank.logprobs([(group,)]), np.concatenate(rank.logprobs([(s,) for s in separate]))
        batch = UpdateBatch(1, 0, 0, (), group.response_tokens)
        times = {}
        for name, work in (("packed", [(group,)]), ("separate", [(s,) for s in separate])):
            rank.update(RankUpdate(batch, work))
            torch.cuda.synchronize()
            times[name] = rank.update(RankUpdate(batch, work)).seconds
    print({"largest difference": float(np.abs(packed - apart).max()), **times})
    assert np.abs(packed - apart).max() < 0.05
