"""The one place that knows what a prompt is made of.

    chat wrapper   from the model's own chat template, around the user's turn
    user's turn    parts from a template (templates.py): text, and a slot for each medium
    bare_ids       one `<|video_pad|>` in each slot: what the engine is given and expands
    token_ids      each slot expanded to `<x.x seconds>` markers and vision tokens: the trainer's truth

Only the chat wrapper may hold control tokens. What a question says is tokenised with special tokens split, so that a
"<|video_pad|>" or "<|im_end|>" in it stays text. Processors of transformers >= 5.10 wrap each timestamped pair of
frames in vision tokens themselves, so the placeholder stands bare: one more wrapper, as chat templates write it, gives
a form that the base model has not seen.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import UInt8
from tokenizers import Tokenizer
from transformers import AutoProcessor
from transformers.video_utils import VideoMetadata

from videorl.data.sampling import FRAMES_PER_PATCH, PATCH_SIDE
from videorl.data.templates import Slot, Template
from videorl.errors import QuestionDropped, UserError
from videorl.types import Drop, DropReason, FrameRef, Frames, Prompt, Question

_MILLISECONDS = 1000.0
_USER_TURN = "\ue000"  # stands for the user's turn while the chat template is rendered


@dataclass(slots=True, frozen=True)
class VideoInput:
    """One medium as processors take it, for engine and trainer alike.

    Processors compute times as index / fps: at fps 1000 the presentation times in milliseconds are the indices.
    """

    pixels: UInt8[np.ndarray, "T H W 3"]
    metadata: dict[str, Any]  # fields of transformers' VideoMetadata

    # Frames are sampled and resized already.
    PROCESSOR_KWARGS: ClassVar[dict[str, bool]] = {"do_sample_frames": False, "do_resize": False}


def video_input(frames: Frames) -> VideoInput:
    """Frames with their true times, in the form that gives the ids of `PromptBuilder`."""
    stamps = [round(float(time) * _MILLISECONDS) for time in frames.timestamps]
    _, height, width, _ = frames.pixels.shape
    metadata = {
        "fps": _MILLISECONDS,
        "frames_indices": stamps,
        "total_num_frames": stamps[-1] + 1,
        "duration": (stamps[-1] + 1) / _MILLISECONDS,
        "height": height,
        "width": width,
    }
    return VideoInput(frames.pixels, metadata)


class PromptBuilder:
    """Question and frames → Prompt. Thread-safe."""

    def __init__(self, processor_folder: Path, template: Template, max_prompt_tokens: int) -> None:
        """
        Args:
            processor_folder: a Hugging Face model folder with its processor.
            template: the user's turn.
            max_prompt_tokens: a longer prompt is dropped.

        Raises:
            UserError: the folder holds no processor with a chat template and video tokens.
        """
        self._template = template
        self._max_tokens = max_prompt_tokens
        self._processor: Any = _load_processor(processor_folder)
        tokenizer = self._processor.tokenizer
        self._tokens: Tokenizer = tokenizer.backend_tokenizer
        # A copy of its own: the setting is the tokenizer's state, and transformers flips it from call to call.
        self._literal_tokens: Tokenizer = copy.deepcopy(tokenizer.backend_tokenizer)
        self._literal_tokens.encode_special_tokens = True
        self._special = {token.content: i for i, token in tokenizer.added_tokens_decoder.items() if token.special}
        self._video_token: str = self._processor.video_token
        chat = [{"role": "user", "content": _USER_TURN}]
        rendered = tokenizer.apply_chat_template(
            chat, chat_template=self._processor.chat_template, tokenize=False, add_generation_prompt=True
        )
        head, found, tail = str(rendered).partition(_USER_TURN)
        if not found:
            raise UserError(f"{processor_folder}: its chat template leaves out the user's turn")
        self._head, self._tail = self._cut(head), self._cut(tail)
        self._thinks = tail.rstrip().endswith("<think>")

    def build(self, question: Question, media: Sequence[tuple[FrameRef, Frames]]) -> Prompt:
        """The prompt of a question whose media are `media`, in order.

        Raises:
            QuestionDropped: PROMPT_TOO_LONG, or PROMPT_INVALID.
        """
        parts = list(self._template(question))
        if parts.count(Slot.MEDIA) != len(media):
            raise _invalid(question, f"{parts.count(Slot.MEDIA)} places for {len(media)} media")
        pieces = list(self._pieces(parts))
        bare = self._ids(pieces)
        expansions = iter([self._expansion(frames) for _, frames in media])
        video = self._special[self._video_token]
        tokens = [i for bare_id in bare for i in (next(expansions) if bare_id == video else [bare_id])]
        if len(tokens) > self._max_tokens:
            detail = f"{question.id}: {len(tokens)} tokens are more than data.max_prompt_tokens = {self._max_tokens}"
            raise QuestionDropped(Drop(DropReason.PROMPT_TOO_LONG, detail))
        return Prompt(
            text="".join(text for text, _ in pieces),
            bare_ids=np.array(bare, np.int32),
            token_ids=np.array(tokens, np.int32),
            frames=tuple(ref for ref, _ in media),
            thinks=self._thinks,
        )

    def media_tokens(self, frames: Frames) -> int:
        """Tokens that one medium adds to a prompt, markers included; only the pixels' shape matters."""
        return len(self._expansion(frames))

    def text_tokens(self, question: Question) -> int:
        """Tokens of a question's prompt without its media.

        Raises:
            QuestionDropped: PROMPT_INVALID.
        """
        parts = list(self._template(question))
        return len(self._ids(list(self._pieces(parts)))) - parts.count(Slot.MEDIA)

    def _pieces(self, parts: Sequence[str | Slot]) -> Iterator[tuple[str, bool]]:
        """(text, is a control token) in order. The user's text and the wrapper's plain text are one piece where they
        meet, as they are when a prompt is tokenised as a whole."""
        yield from self._merged([*self._head, *self._user(parts), *self._tail])

    def _user(self, parts: Sequence[str | Slot]) -> Iterator[tuple[str, bool]]:
        for part in parts:
            yield (self._video_token, True) if isinstance(part, Slot) else (part, False)

    def _cut(self, text: str) -> list[tuple[str, bool]]:
        """Text of the chat wrapper, cut at its control tokens."""
        pattern = "|".join(re.escape(token) for token in sorted(self._special, key=len, reverse=True))
        return [(piece, piece in self._special) for piece in re.split(f"({pattern})", text)]

    @staticmethod
    def _merged(pieces: Sequence[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
        for control, group in groupby(pieces, key=lambda piece: piece[1]):
            if control:
                yield from group
            elif text := "".join(text for text, _ in group):
                yield text, False

    def _ids(self, pieces: Sequence[tuple[str, bool]]) -> list[int]:
        ids: list[int] = []
        for text, control in pieces:
            ids += [self._special[text]] if control else self._literal_tokens.encode(text, add_special_tokens=False).ids
        return ids

    def _expansion(self, frames: Frames) -> list[int]:
        """The processor's own replacement of one placeholder, as ids."""
        count, height, width, _ = frames.pixels.shape
        patch = self._processor.video_processor.patch_size
        grid = np.array([[count // FRAMES_PER_PATCH, height // patch, width // patch]])
        metadata = VideoMetadata(**video_input(frames).metadata)
        expanded = self._processor.replace_video_token({"video_grid_thw": grid, "video_metadata": [metadata]}, 0)
        return self._tokens.encode(expanded, add_special_tokens=False).ids


def _load_processor(folder: Path) -> Any:
    try:
        processor = AutoProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a damaged file is whatever the library stumbles over
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UserError(f"{folder}: no processor can be loaded from it: {said}") from None
    wanted = ("video_token", "video_processor", "replace_video_token", "chat_template")
    missing = [name for name in wanted if not getattr(processor, name, None)]
    if missing:
        raise UserError(f"{folder}: its {type(processor).__name__} has no {missing[0]}; a Qwen3-VL folder is expected")
    side = processor.video_processor.patch_size * processor.video_processor.merge_size
    if side != PATCH_SIDE or processor.video_processor.temporal_patch_size != FRAMES_PER_PATCH:
        raise UserError(f"{folder}: one vision token covers {side} pixels a side; frames are cut for {PATCH_SIDE}")
    return processor


def _invalid(question: Question, detail: str) -> QuestionDropped:
    return QuestionDropped(Drop(DropReason.PROMPT_INVALID, f"{question.id}: {detail}"))
