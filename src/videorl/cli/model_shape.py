"""The sizes of a Qwen3-VL, read from its config.json, and what it costs to run: FLOPs and bytes.

A multiply-add counts two FLOPs. All formulas are for one forward pass:

    text       2·parameters of the layers·n + 4·L·H·D·(n·c + n(n+1)/2)     n tokens after a context of c
    head       2·hidden·vocabulary·n
    vision     2·parameters of the blocks·patches + 4·L·hidden·patches²    attention stays within a pair of frames
               + 2·parameters of the mergers·patches/merge²                the last one and one for each DeepStack layer

with L layers, H heads of dimension D. Backward is twice a forward; recomputing activations is one forward more.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from videorl.errors import UserError


@dataclass(slots=True, frozen=True)
class TextShape:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocabulary: int
    tied: bool

    @property
    def layer_parameters(self) -> int:
        """Weights of one layer's projections; norms are left out."""
        return self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads) + 3 * self.hidden * self.mlp

    @property
    def embedding_parameters(self) -> int:
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters + self.embedding_parameters * (1 if self.tied else 2)

    @property
    def kv_bytes(self) -> int:
        """Keys and values of one token in bfloat16."""
        return 2 * self.layers * self.kv_heads * self.head_dim * 2

    def flops(self, tokens: int, context: int = 0) -> float:
        """One forward over `tokens` tokens that each see `context` tokens and those before them, head left out."""
        pairs = tokens * context + tokens * (tokens + 1) / 2
        return 2 * self.layers * self.layer_parameters * tokens + 4 * self.layers * self.heads * self.head_dim * pairs

    def head_flops(self, tokens: int) -> float:
        return 2 * self.embedding_parameters * tokens


@dataclass(slots=True, frozen=True)
class VisionShape:
    layers: int
    hidden: int
    mlp: int
    patch: int
    temporal_patch: int
    merge: int
    out: int
    deepstack: int

    @property
    def block_parameters(self) -> int:
        return 4 * self.hidden**2 + 2 * self.hidden * self.mlp

    @property
    def patch_parameters(self) -> int:
        return 3 * self.temporal_patch * self.patch**2 * self.hidden

    @property
    def merger_parameters(self) -> int:
        """All mergers: the last one and one for each DeepStack layer."""
        merged = self.hidden * self.merge**2
        return (1 + self.deepstack) * (merged**2 + merged * self.out)

    @property
    def parameters(self) -> int:
        return self.layers * self.block_parameters + self.patch_parameters + self.merger_parameters

    def flops(self, pairs: int, patches: int) -> float:
        """One forward over `pairs` pairs of frames with `patches` patches each."""
        blocks = 2 * (self.layers * self.block_parameters + self.patch_parameters) * patches
        attention = 4 * self.layers * self.hidden * patches**2
        mergers = 2 * self.merger_parameters * patches / self.merge**2
        return pairs * (blocks + attention + mergers)


@dataclass(slots=True, frozen=True)
class ModelShape:
    text: TextShape
    vision: VisionShape

    @property
    def parameters(self) -> int:
        return self.text.parameters + self.vision.parameters

    @classmethod
    def of_folder(cls, folder: Path) -> Self:
        """Read `folder`/config.json.

        Raises:
            UserError: no such folder, no config.json in it, or not a Qwen3-VL.
        """
        tree = read_model_config(folder)
        try:
            return cls.of_config(tree)
        except (KeyError, TypeError) as error:
            raise UserError(f"{folder / 'config.json'}: {error} is missing or of the wrong type") from None

    @classmethod
    def of_config(cls, tree: dict[str, Any]) -> Self:
        text, vision = tree["text_config"], tree["vision_config"]
        return cls(
            TextShape(
                layers=text["num_hidden_layers"],
                hidden=text["hidden_size"],
                heads=text["num_attention_heads"],
                kv_heads=text["num_key_value_heads"],
                head_dim=text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"],
                mlp=text["intermediate_size"],
                vocabulary=text["vocab_size"],
                tied=bool(tree.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
            ),
            VisionShape(
                layers=vision["depth"],
                hidden=vision["hidden_size"],
                mlp=vision["intermediate_size"],
                patch=vision["patch_size"],
                temporal_patch=vision["temporal_patch_size"],
                merge=vision["spatial_merge_size"],
                out=vision["out_hidden_size"],
                deepstack=len(vision["deepstack_visual_indexes"]),
            ),
        )


def read_model_config(folder: Path) -> dict[str, Any]:
    """`folder`/config.json of a Qwen3-VL.

    Raises:
        UserError: one line that says what is missing.
    """
    if not folder.is_dir():
        raise UserError(f"model.path {folder}: no such folder; it must be a downloaded Hugging Face model")
    file = folder / "config.json"
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"model.path {folder}: has no config.json; it must be a Hugging Face model folder") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read: {error}") from None
    kind = tree.get("model_type") if isinstance(tree, dict) else None
    if kind != "qwen3_vl":
        raise UserError(f"{file}: model_type is {kind!r}; model.family qwen3_vl needs 'qwen3_vl'")
    return tree
