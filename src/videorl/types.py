"""Every object that crosses components, in pipeline order.

    adapters → Question → ledger → IssuedQuestion → rollouter → (FrameRef, Prompt) → engine → Rollout → reward → Score
        → Group → advantage → TrainGroup → UpdateBatch → packing → trainer → UpdateReport → StepRecord

Read this file from top to bottom and you know the system. Nothing here computes anything; pixels never stand in an
object that travels (`FrameRef` names them, `Frames` stays inside the process that reads it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np
from jaxtyping import Float32, Float64, Int32, UInt8


class DropReason(StrEnum):
    """Why a row, a question or a response was left out. The value is the key under `dropped/` in metrics.jsonl."""

    ROW_INVALID = "row_invalid"  # a field is missing or of the wrong type
    OPTIONS_NOT_FOUND = "options_not_found"
    ANSWER_UNRESOLVED = "answer_unresolved"  # the row's answer names no option, or several
    NOT_MULTIPLE_CHOICE = "not_multiple_choice"
    DUPLICATE = "duplicate"
    FILTERED = "filtered"  # by a filter that the user or a benchmark names
    VIDEO_MISSING = "video_missing"
    VIDEO_BROKEN = "video_broken"  # not a video, no picture in it, truncated before the first frame
    DECODE_TIMEOUT = "decode_timeout"
    DECODE_CRASH = "decode_crash"
    PROMPT_TOO_LONG = "prompt_too_long"
    RESPONSE_TOO_LONG = "response_too_long"  # a demonstration
    PROMPT_INVALID = "prompt_invalid"  # the template or processor refused it
    GENERATION_FAILED = "generation_failed"
    FORBIDDEN_TOKEN = "forbidden_token"  # a response holds a vision or control token
    UNSCORABLE = "unscorable"  # the reward answered "cannot be scored"
    NO_USABLE_RESPONSE = "no_usable_response"  # every response of a group was dropped


@dataclass(slots=True, frozen=True)
class Drop:
    """A typed "no". Made wherever something is left out; read by ledger, events, metrics and reports."""

    reason: DropReason
    detail: str  # one line for a person: the file, the row, what was wrong


# ── the question ────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, frozen=True)
class FrameSampling:
    """How many frames a medium gives and how large. Made by the config (a row may override); read by data/ only."""

    fps: float = 1.0
    max_frames: int = 24
    min_frames: int = 2
    min_pixels: int = 3_136  # area of one frame
    max_pixels: int = 100_000


@dataclass(slots=True, frozen=True)
class Media:
    """One video, folder of frames or image of a question. Made by adapters; read by the frame store."""

    kind: Literal["video", "image"]
    path: str  # resolved: absolute, remapped, under its media root
    start: float | None = None  # clip, in seconds of the source
    end: float | None = None
    limits: Mapping[str, float] = field(default_factory=dict)  # FrameSampling fields that this row sets itself
    frames: tuple[str, ...] = ()  # a video given as a list of frame files; path is then their folder
    shuffle: int | None = None  # a seed: its frames out of order, under the times in order (a control in evaluation)


@dataclass(slots=True, frozen=True)
class Question:
    """One item with its media. Made by data/adapters; read by dataset, prompt, reward, evaluation."""

    id: str  # unique within a run: "<source>/<row's own id or number>"
    task: str  # "multiple_choice"; the type is open
    text: str  # literal: a "<video>" in it is text
    options: tuple[str, ...]  # without their labels; the label of options[i] is chr(ord("A") + i)
    answer: int  # index into options; -1 where the task has none
    media: tuple[Media, ...]
    source: str  # the row's data_source, else the file's name
    categories: Mapping[str, str] = field(default_factory=dict)
    given_prompt: str | None = None  # the row's own prompt, verbatim, for data.prompt = "as-given"
    demonstration: str | None = None  # a given response, for supervised training


@dataclass(slots=True, frozen=True)
class IssuedQuestion:
    """A question on its way through one epoch. Made by the ledger; identifies its group to the end."""

    epoch: int  # from 0
    position: int  # place in the epoch's seeded order
    question: Question

    @property
    def key(self) -> str:
        return f"{self.epoch}:{self.question.id}"


# ── what the model sees ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, frozen=True)
class FrameRef:
    """Names frames in the store and how to make them again. This travels; pixels do not."""

    key: str  # content digest + clip + sampling + store version
    media: Media
    sampling: FrameSampling


@dataclass(slots=True, frozen=True)
class Frames:
    """Decoded, sampled, resized frames of one medium. Made by the store; read inside engine and trainer processes."""

    pixels: UInt8[np.ndarray, "T H W 3"]  # T even, H and W multiples of 32; may be a read-only mmap
    timestamps: Float64[np.ndarray, "T"]  # presentation times in seconds of the source
    indices: Int32[np.ndarray, "T"]  # frame numbers in the source
    warnings: tuple[str, ...] = ()  # "17 of 240 frames could not be decoded"


@dataclass(slots=True, frozen=True)
class Prompt:
    """What the engine and the trainer are both given. Made by data/prompt.

    Ids, not text, go to the engine, so that a question which spells a special token stays text.
    """

    text: str  # for people: the rendered prompt with one placeholder for each medium
    bare_ids: Int32[np.ndarray, "B"]  # the same as ids, one placeholder for each medium: the engine expands them
    token_ids: Int32[np.ndarray, "P"]  # placeholders expanded to markers and vision tokens: the trainer's truth
    frames: tuple[FrameRef, ...]
    thinks: bool = False  # the prompt itself opened "<think>", so the completion starts inside it


@dataclass(slots=True, frozen=True)
class Sampling:
    """Every sampling parameter of a request, explicit. Made from the config; read by the engine and recorded."""

    temperature: float
    max_tokens: int
    top_p: float = 1.0
    top_k: int = -1  # -1: off


# ── the responses ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, frozen=True)
class Rollout:
    """One response as it was sampled. Made by an engine; never re-tokenised.

    `logprobs[t]` is the log-probability of `token_ids[t]` after temperature and token mask, under the weights of
    version `versions[t]`; versions never decrease. The end token is part of the response when it was sampled.
    """

    token_ids: Int32[np.ndarray, "R"]
    logprobs: Float32[np.ndarray, "R"]
    versions: Int32[np.ndarray, "R"]
    text: str
    finish_reason: Literal["stop", "length"]


@dataclass(slots=True, frozen=True)
class Score:
    """What a response is worth. Made by rewards/; read by advantage, metrics, evaluation and `videorl score`."""

    score: float
    accuracy: float
    format: float
    choice: str | None  # the letter that was answered, where the task has letters


@dataclass(slots=True, frozen=True)
class ScoredRollout:
    """A response with its score, or with the reason why it was dropped. Exactly one of the two is set."""

    rollout: Rollout
    score: Score | None
    drop: Drop | None = None


@dataclass(slots=True, frozen=True)
class Group:
    """A question and its n responses: the unit of everything. Made by the rollouter; read by buffer and recorder."""

    issued: IssuedQuestion
    prompt: Prompt
    responses: tuple[ScoredRollout, ...]
    issued_version: int  # version when its request was handed to the engine
    seconds: float  # from issue to scored

    @property
    def oldest_version(self) -> int:
        """The oldest version among its tokens (its issue version where it has none)."""
        starts = [int(r.rollout.versions[0]) for r in self.responses if len(r.rollout.versions)]
        return min(starts, default=self.issued_version)


@dataclass(slots=True, frozen=True)
class DroppedQuestion:
    """A question that gave no group. Made by the rollouter; read by the controller, who tells the ledger."""

    issued: IssuedQuestion
    drop: Drop
    group: Group | None = None  # where there were responses, and every one of them was dropped


# ── the update ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, frozen=True)
class Branch:
    """One response as the trainer needs it."""

    token_ids: Int32[np.ndarray, "R"]
    old_logprobs: Float32[np.ndarray, "R"]
    versions: Int32[np.ndarray, "R"]
    advantage: float


@dataclass(slots=True, frozen=True)
class TrainGroup:
    """A prompt and the branches that share it. Made by orchestration from a Group; read by batching and trainer."""

    key: str
    prompt_ids: Int32[np.ndarray, "P"]
    frames: tuple[FrameRef, ...]
    branches: tuple[Branch, ...]

    @property
    def response_tokens(self) -> int:
        return sum(len(b.token_ids) for b in self.branches)


@dataclass(slots=True, frozen=True)
class UpdateBatch:
    """The groups of one optimizer step. Made by the controller; read by the trainer.

    `denominator` counts the response tokens of ALL the update's groups, those with zero advantage included, over all
    ranks and micro-batches; `groups` holds only what has to be computed. `probe` is a group without advantage that
    shows how far engine and trainer differ, where none of `groups` holds a token sampled under the present weights.
    """

    step: int  # the fit step it belongs to, from 1
    index: int  # its place in the fit step, from 0
    version: int  # the version whose weights the step began with
    groups: tuple[TrainGroup, ...]
    denominator: int
    probe: TrainGroup | None = None


@dataclass(slots=True, frozen=True)
class UpdateReport:
    """What one optimizer step did. Made by the trainer (equal on all ranks); read by the controller's metrics."""

    stepped: bool
    skipped: Literal["", "no_advantage", "nonfinite_gradient"]
    grad_norm: float | None
    lr: float
    loss: float
    metrics: Mapping[str, float]  # ratio, clip fractions, entropy, mismatch; reduced over ranks
    counts: Mapping[str, int]  # tokens, vision passes, forwards; summed over ranks
    seconds: float


@dataclass(slots=True, frozen=True)
class WeightHandle:
    """Where a staged version can be read. Made by a weight sender; read by every replica's receiver."""

    version: int
    transport: Literal["shm", "nccl"]
    location: str  # shm: a safetensors folder; nccl: the process group's name
    names: tuple[str, ...] = ()  # nccl: parameters in the order in which they are sent
    dtypes: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(slots=True, frozen=True)
class StepRecord:
    """One line of metrics.jsonl. Made at the end of a fit step; read by people, trackers, the viewer and the card."""

    step: int
    version: int
    metrics: Mapping[str, float | int | None]
