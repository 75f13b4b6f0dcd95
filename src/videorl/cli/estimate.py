"""What a run will need before it is started: work, time, memory and place. Estimates, by the formulas given here."""

from __future__ import annotations

from dataclasses import dataclass

from videorl.cli.model_shape import ModelShape
from videorl.config import Config
from videorl.data.sampling import FRAMES_PER_PATCH, PATCH_SIDE

GIB = 1024**3
# What stands in the prompt beside the video: the question, its options and the instruction.
_TEXT_TOKENS = 200
# Tokens around the vision tokens of a pair of frames: its time marker, start and end.
_MARKER_TOKENS = 9


@dataclass(slots=True, frozen=True)
class Work:
    """FLOPs of one fit step; the forward formulas stand in model_shape.py."""

    prompt_tokens: int
    response_tokens: int
    vision: float
    prompt: float
    responses: float
    rollout: float  # generation: vision and prompt once a group, every response token once
    training: float  # vision and prompt once a group, forward, backward and (where set) recomputation
    separate: float  # the same training with n separate sequences a group


def work_of_a_step(config: Config, shape: ModelShape, response_tokens: int) -> Work:
    """The work of G groups of n responses of `response_tokens` tokens, each with a video at the sampling's cap.

    forward of a group, prompt shared:   V + P + n·R      V vision, P prompt, R one response after that prompt
    forward of a group, n sequences:     n·(V + P + R)
    training: 3 forwards (backward counts two), 4 with activation checkpointing.
    """
    pairs = config.data.max_frames // FRAMES_PER_PATCH
    merged = config.data.max_pixels // PATCH_SIDE**2
    prompt_tokens = min(pairs * (merged + _MARKER_TOKENS) + _TEXT_TOKENS, config.data.max_prompt_tokens)
    text = shape.text
    vision = shape.vision.flops(pairs, merged * shape.vision.merge**2)
    prompt = text.flops(prompt_tokens)
    response = text.flops(response_tokens, prompt_tokens) + text.head_flops(response_tokens)
    n, groups = config.algo.group_size, config.groups_per_step
    passes = 4 if config.trainer.activation_checkpointing else 3
    shared = vision + prompt + n * response
    return Work(
        prompt_tokens=prompt_tokens,
        response_tokens=response_tokens,
        vision=vision,
        prompt=prompt,
        responses=n * response,
        rollout=groups * shared,
        training=groups * passes * shared,
        separate=groups * passes * n * (vision + prompt + response),
    )


@dataclass(slots=True, frozen=True)
class Memory:
    """GiB on one device."""

    trainer_state: float
    trainer_unit: float
    trainer_activations: float
    rollout_weights: float
    rollout_cache: float
    cache_tokens: int  # tokens that fit into the cache of one replica

    @property
    def trainer(self) -> float:
        return self.trainer_state + self.trainer_unit + self.trainer_activations

    @property
    def rollout(self) -> float:
        return self.rollout_weights + self.rollout_cache


def memory_of_a_device(config: Config, shape: ModelShape, device_gib: float, compute_bytes: int = 2) -> Memory:
    """What one trainer rank and one device of a rollout replica hold.

    state:        16 bytes a parameter (fp32 weight, gradient, two moments) over all ranks
    unit:         two gathered FSDP units, the largest one (embedding or layer), in the compute type
    activations:  with checkpointing one hidden state a layer and token, else about 16 (attention and MLP inside);
                  the inside of one layer; the logits of one chunk in fp32, twice
    cache:        gpu_memory_utilization of the device without the weights' share
    """
    text, trainer = shape.text, config.trainer
    width = text.hidden * compute_bytes
    kept = 1 if trainer.activation_checkpointing else 16
    inside = (4 * text.hidden + 3 * text.mlp + 2 * text.heads * text.head_dim) * compute_bytes
    activations = trainer.token_budget * (kept * text.layers * width + inside)
    logits = 2 * trainer.logprob_chunk * text.vocabulary * 4
    unit = 2 * max(text.layer_parameters, text.embedding_parameters) * compute_bytes
    parallel = config.rollout.tensor_parallel
    weights = shape.parameters * compute_bytes / parallel
    cache = max(config.rollout.gpu_memory_utilization * device_gib * GIB - weights, 0.0)
    return Memory(
        trainer_state=16 * shape.parameters / config.cluster.trainer_ranks / GIB,
        trainer_unit=unit / GIB,
        trainer_activations=(activations + logits) / GIB,
        rollout_weights=weights / GIB,
        rollout_cache=cache / GIB,
        cache_tokens=int(cache * parallel / text.kv_bytes),
    )
