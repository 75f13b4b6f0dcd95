"""Our words in vLLM's: its arguments, environment, sampling parameters and media.

Every value that shapes the distribution stands here, so that nothing in a model folder can change it unseen.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from typing import Any

from vllm import SamplingParams
from vllm.config import WeightTransferConfig
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind

from videorl.data.prompt import VideoInput, video_input
from videorl.rollout.settings import EngineSettings
from videorl.rollout.vllm_mask import FORBIDDEN_KEY, ForbiddenTokens
from videorl.rollout.vllm_plugin import NO_COMPILATION
from videorl.rollout.vllm_weights import WeightReceiver
from videorl.types import FrameRef, Frames, Sampling


def engine_arguments(settings: EngineSettings) -> AsyncEngineArgs:
    cpu = settings.device == "cpu"
    return AsyncEngineArgs(
        model=str(settings.model),
        dtype=settings.dtype,
        trust_remote_code=False,
        generation_config="vllm",  # not the folder's: it would change sampling defaults
        seed=settings.seed,
        max_model_len=settings.max_model_len,
        tensor_parallel_size=settings.tensor_parallel,
        distributed_executor_backend="mp",  # inside a Ray actor too: the actor's processes, not new actors
        gpu_memory_utilization=settings.gpu_memory_utilization,
        kv_cache_memory_bytes=int(settings.kv_cache_gib * (1 << 30)) if cpu else None,
        enforce_eager=settings.enforce_eager,
        block_size=settings.block_size,  # type: ignore[arg-type]  # None: vLLM's default
        max_num_seqs=settings.max_num_seqs,
        # It sizes the encoder cache too, and a medium that does not fit there whole is refused.
        max_num_batched_tokens=max(settings.max_batched_tokens, settings.max_num_seqs, settings.media_tokens),
        enable_prefix_caching=True,
        enable_chunked_prefill=True,
        # With the default cache a request whose video is wholly in the prefix cache reaches the worker without pixels,
        # and the engine dies when a publication makes it compute that prefix again.
        mm_processor_cache_type="shm",
        mm_processor_cache_gb=settings.media_cache_gib,
        mm_shm_cache_max_object_size_mb=1 + -(-2 * settings.media_bytes >> 20),
        skip_mm_profiling=cpu,  # memory is set by hand there
        logprobs_mode="processed_logprobs",
        logits_processors=[f"{ForbiddenTokens.__module__}:{ForbiddenTokens.__qualname__}"],
        additional_config={FORBIDDEN_KEY: settings.tokens.forbidden.tolist()},
        worker_extension_cls=f"{WeightReceiver.__module__}.{WeightReceiver.__qualname__}",
        weight_transfer_config=WeightTransferConfig(backend="nccl") if settings.weight_transport == "nccl" else None,
        disable_log_stats=True,
        enable_log_requests=False,
    )


def set_environment(settings: EngineSettings) -> None:
    """What vLLM's processes inherit from this one. Call it right before an engine is made."""
    os.environ |= {
        # One name for each engine; vLLM's own default is one for each process tree.
        "VLLM_OBJECT_STORAGE_SHM_BUFFER_NAME": f"VLLM_MEDIA_{os.getpid()}_{secrets.token_hex(8)}",
        "VLLM_USE_V2_MODEL_RUNNER": "0",  # it has another interface for logits processors
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # standard output belongs to --json
    if settings.device == "cpu":
        os.environ |= {
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # "auto" pins every engine of a machine to core 0
            "OMP_WAIT_POLICY": "PASSIVE",  # spinning threads starve the other processes of a small machine
        }
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        if settings.enforce_eager:
            # vLLM compiles two functions of the sampler all the same, which takes each engine a C++ compiler and longer
            # than they will ever save.
            os.environ.setdefault(NO_COMPILATION, "1")


def sampling_params(sampling: Sampling, n: int, settings: EngineSettings) -> SamplingParams:
    """One request for n responses, every parameter explicit."""
    return SamplingParams(
        n=n,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=0.0,
        presence_penalty=0.0,
        frequency_penalty=0.0,
        repetition_penalty=1.0,
        max_tokens=sampling.max_tokens,
        min_tokens=0,
        stop=None,
        stop_token_ids=list(settings.tokens.stop),
        ignore_eos=True,  # the line above is the whole truth
        bad_words=None,
        logit_bias=None,
        allowed_token_ids=None,
        seed=None,  # with chunked prefill a seed for each request ends the CPU engine
        logprobs=0,  # the sampled token's
        prompt_logprobs=None,
        flat_logprobs=True,
        detokenize=False,  # once, at the end, by the engine's front
        skip_special_tokens=True,
        output_kind=RequestOutputKind.FINAL_ONLY,  # versions stand on finished outputs only
    )


def media_inputs(refs: Sequence[FrameRef], frames: Sequence[Frames]) -> dict[str, Any]:
    """The media fields of a vLLM prompt: nothing where there are none.

    The frames' own keys identify them in every cache: two videos of one size have the same placeholder ids.
    """
    if not refs:
        return {}
    videos = [video_input(one) for one in frames]
    return {
        "multi_modal_data": {"video": [(video.pixels, video.metadata) for video in videos]},
        "multi_modal_uuids": {"video": [ref.key for ref in refs]},
        "mm_processor_kwargs": VideoInput.PROCESSOR_KWARGS,
    }
