from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from vllm import SamplingParams, envs
from vllm.sampling_params import RequestOutputKind

from builders_rollout import MemoryFrames, make_frames
from videorl.config.load import load_config
from videorl.data.tokens import TokenRules
from videorl.rollout.settings import EngineSettings
from videorl.rollout.vllm_arguments import engine_arguments, media_inputs, sampling_params, set_environment
from videorl.rollout.vllm_mask import FORBIDDEN_KEY, ForbiddenTokens
from videorl.types import Sampling

RULES = TokenRules(stop=(3, 5), forbidden=np.array([1, 4], np.int32), vocab_size=8)


def settings(**changed) -> EngineSettings:
    return EngineSettings(Path("model"), "cpu", "float32", RULES, 128, 0, **changed)


def test_nothing_but_the_end_tokens_ends_a_response_and_nothing_shapes_the_distribution() -> None:
    params = sampling_params(Sampling(0.7, 32), 4, settings())
    assert (params.n, params.temperature, params.max_tokens) == (4, 0.7, 32)
    assert (params.stop_token_ids, params.ignore_eos, params.stop) == ([3, 5], True, [])
    neutral = {"top_p": 1, "min_p": 0, "min_tokens": 0, "repetition_penalty": 1, "seed": None, "logit_bias": None}
    neutral |= {"presence_penalty": 0, "frequency_penalty": 0, "allowed_token_ids": None, "bad_words": []}
    assert {name: getattr(params, name) for name in neutral} == neutral
    assert params.top_k in (-1, 0)
    assert (params.logprobs, params.output_kind) == (0, RequestOutputKind.FINAL_ONLY)


def test_every_sampling_parameter_that_changes_the_distribution_is_known_to_this_file() -> None:
    ours = sampling_params(Sampling(1.0, 16), 1, settings())
    plain = SamplingParams(max_tokens=16)
    differing = {name for name in SamplingParams.__struct_fields__ if getattr(ours, name) != getattr(plain, name)}
    about_the_end = {"stop_token_ids", "ignore_eos", "_all_stop_token_ids"}
    about_the_answer = {"logprobs", "flat_logprobs", "detokenize", "output_kind"}
    assert differing <= about_the_end | about_the_answer | {"top_k"}


def test_the_model_folder_cannot_change_sampling_and_the_mask_is_on() -> None:
    arguments = engine_arguments(settings())
    assert arguments.generation_config == "vllm"
    assert arguments.logprobs_mode == "processed_logprobs"
    assert arguments.trust_remote_code is False
    assert arguments.mm_processor_cache_type == "shm"
    assert arguments.additional_config == {FORBIDDEN_KEY: [1, 4]}
    assert arguments.logits_processors == ["videorl.rollout.vllm_mask:ForbiddenTokens"]
    assert arguments.worker_extension_cls == "videorl.rollout.vllm_weights.WeightReceiver"


@pytest.mark.parametrize("chosen", [None, "ext://sys.stdout"])
def test_the_engine_logs_to_standard_error_unless_told_otherwise(
    chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {} if chosen is None else {"VLLM_LOGGING_STREAM": chosen})
    set_environment(settings())
    assert os.environ["VLLM_LOGGING_STREAM"] == (chosen or "ext://sys.stderr")
    assert "VLLM_LOGGING_STREAM" in envs.environment_variables


@pytest.mark.parametrize("eager", [True, False])
def test_an_eager_engine_on_a_cpu_compiles_nothing(eager: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    set_environment(replace(settings(), enforce_eager=eager))
    assert os.environ.get("TORCH_COMPILE_DISABLE") == ("1" if eager else None)


def test_the_encoder_cache_holds_the_largest_medium_whole() -> None:
    one = settings(media_bytes=24 * 100_000 * 12, max_batched_tokens=64, max_num_seqs=8)
    assert one.media_tokens == -(-24 * 100_000 // (2 * 32 * 32))
    assert engine_arguments(one).max_num_batched_tokens == one.media_tokens


def test_memory_for_media_is_twice_what_is_in_flight() -> None:
    assert settings(media_bytes=1 << 28, media_in_flight=4).media_cache_gib == 2.0
    assert settings(media_bytes=1, media_in_flight=1).media_cache_gib == 0.25


CONFIGS = Path(__file__).parents[3] / "configs"


def of_preset(name: str, replica: int, device: Literal["cpu", "gpu"]) -> EngineSettings:
    config = load_config(CONFIGS / name, [])
    return EngineSettings.of_config(config, RULES, replica, device=device, weight_transport="shm")


def test_replicas_of_a_preset_differ_in_seed_and_number_only() -> None:
    first, second = (of_preset("qwen3vl_8b_4node.toml", replica, "gpu") for replica in (0, 1))
    assert (first.dtype, first.tensor_parallel, first.gpu_memory_utilization) == ("bfloat16", 2, 0.75)
    assert first.media_bytes == 24 * 100_000 * 12
    assert first.media_in_flight == -(-89 // 8)
    assert replace(second, seed=first.seed, replica=first.replica) == first
    assert first.seed != second.seed


def test_a_cpu_computes_in_float32_unless_told_otherwise() -> None:
    assert of_preset("playground.toml", 0, "cpu").dtype == "float32"


def test_media_are_named_by_the_frames_key() -> None:
    source = MemoryFrames()
    refs = [source.add(make_frames(seed)) for seed in (1, 2)]
    inputs = media_inputs(refs, [source.load(ref) for ref in refs])
    assert inputs["multi_modal_uuids"] == {"video": [refs[0].key, refs[1].key]}
    assert len(inputs["multi_modal_data"]["video"]) == 2
    assert media_inputs([], []) == {}


def test_forbidden_logits_are_minus_infinity_and_others_are_untouched() -> None:
    class Config:
        additional_config = {FORBIDDEN_KEY: [1, 4]}  # noqa: RUF012

    logits = torch.arange(16.0).view(2, 8)
    expected = logits.clone()
    expected[:, [1, 4]] = float("-inf")
    mask = ForbiddenTokens(Config(), torch.device("cpu"), False)  # type: ignore[arg-type]
    assert torch.equal(mask.apply(logits), expected)
    assert not mask.is_argmax_invariant()
