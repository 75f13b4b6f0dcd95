"""Qwen3-VL: a vision tower with DeepStack, M-RoPE positions, timestamps as text between frame pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import AutoConfig, AutoProcessor, Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLModel
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding, Qwen3VLVisionRotaryEmbedding

from videorl.batching.row import PackedRow
from videorl.data.prompt import VideoInput, video_input
from videorl.errors import UserError
from videorl.model.attention import IMPLEMENTATION, RowAttention
from videorl.model.family import VideoInputs
from videorl.types import Frames

VIDEO = 2  # transformers' token type of a video placeholder


class Qwen3VL:
    """Implements ModelFamily for `Qwen3VLForConditionalGeneration`."""

    def __init__(self, folder: Path) -> None:
        try:
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as error:
            raise UserError(f"{folder}: no model folder: {str(error).splitlines()[0]}") from None
        if not isinstance(config, Qwen3VLConfig):
            raise UserError(f"{folder}: holds a {config.model_type} model, and model.family is qwen3_vl")
        self.config: Any = config
        self.processor: Any = AutoProcessor.from_pretrained(folder, local_files_only=True)

    def build(self, folder: Path) -> Qwen3VLForConditionalGeneration:
        with torch.device("meta"):
            model = Qwen3VLForConditionalGeneration._from_config(self.config, dtype=torch.float32)
        config: Any = model.config
        config.text_config._attn_implementation = IMPLEMENTATION
        config.vision_config._attn_implementation = "sdpa"
        config.text_config.use_cache = False
        return model

    def restore_buffers(self, model: nn.Module) -> None:
        for module in model.modules():
            if isinstance(module, Qwen3VLTextRotaryEmbedding | Qwen3VLVisionRotaryEmbedding):
                kind: Any = type(module)
                fresh: nn.Module = kind(module.config)  # their buffers follow from their config
                for name, buffer in fresh.named_buffers():
                    module.get_buffer(name).copy_(buffer)

    def layers(self, model: nn.Module) -> Iterable[nn.Module]:
        inner = cast(Any, model).model
        return [*inner.visual.blocks, *inner.language_model.layers]

    def vision(self, model: nn.Module) -> nn.Module:
        return cast(Any, model).model.visual

    def embedding(self, model: nn.Module) -> nn.Embedding:
        return cast(Any, model).model.language_model.embed_tokens

    def head_weight(self, model: nn.Module) -> nn.Parameter:
        return cast(Any, model).lm_head.weight

    def replace_head(self, model: nn.Module, head: nn.Module) -> None:
        cast(Any, model).lm_head = head

    def video_inputs(self, frames: Sequence[Frames]) -> VideoInputs:
        videos = [video_input(f) for f in frames]
        out = self.processor.video_processor(
            videos=[video.pixels for video in videos],
            video_metadata=[video.metadata for video in videos],
            return_tensors="pt",
            **VideoInput.PROCESSOR_KWARGS,
        )
        return VideoInputs(out["pixel_values_videos"], out["video_grid_thw"])

    def prompt_positions(self, prompt_ids: Int[Tensor, "P"], grid: Int[Tensor, "V 3"]) -> Int[Tensor, "3 P"]:
        types = torch.where(prompt_ids == self.config.video_token_id, VIDEO, 0)[None]
        positions, _ = _RopeIndex(self.config).get_rope_index(prompt_ids[None], types, video_grid_thw=grid)
        return positions[:, 0]

    def filler(self) -> tuple[Int[Tensor, "P"], Frames]:
        side = self.config.vision_config.patch_size * self.config.vision_config.spatial_merge_size
        pixels = np.full((2, side, side, 3), 127, dtype=np.uint8)
        c = self.config
        ids = torch.tensor([c.vision_start_token_id, c.video_token_id, c.vision_end_token_id])
        return ids, Frames(pixels, np.zeros(2), np.zeros(2, dtype=np.int32))

    def hidden_states(
        self, model: nn.Module, row: PackedRow, videos: VideoInputs, attention: RowAttention
    ) -> Float[Tensor, "S D"]:
        inner = cast(Any, model).model
        # Vision runs by itself, so that the layout does not reach it as a keyword argument.
        features = inner.get_video_features(videos.patches, videos.grid, return_dict=True)
        has_video = bool((row.token_ids == self.config.video_token_id).any())
        out = inner(
            input_ids=row.token_ids[None],
            position_ids=row.position_ids[:, None],
            mm_encoder_outputs={"video": features} if has_video else None,
            branches=attention,
            use_cache=False,
        )
        hidden = out.last_hidden_state[0]
        if not has_video:
            # The tower ran all the same, on a filler: every rank enters the same modules, backward included.
            outputs = (*features.pooler_output, *map(torch.cat, features.deepstack_features))
            hidden = hidden + 0 * torch.stack([output.sum() for output in outputs]).sum()
        return hidden


class _RopeIndex:
    """The two position methods of transformers' Qwen3VLModel, without a model behind them."""

    get_rope_index: Any = Qwen3VLModel.get_rope_index
    get_vision_position_ids: Any = Qwen3VLModel.get_vision_position_ids

    def __init__(self, config: Any) -> None:
        self.config = config
