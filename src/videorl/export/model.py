"""A checkpoint as a model for others: safetensors, config, processor, tokenizer, template, generation config.

The folder is written beside its destination and moved there in one step, so that it is whole or absent.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from videorl.errors import UserError, VideorlError, unwritten
from videorl.eval.documents import checked, read_object
from videorl.export.processor import DIFFERENCES, bare_video_placeholder, carry_frame_limits
from videorl.types import FrameSampling

MARK = "videorl_export.json"  # a folder that holds it is an export and may be replaced by one
CONFIG = "videorl.toml"
SHARD_BYTES = 5_000_000_000
_HEAD, _EMBEDDING = "lm_head.weight", "model.language_model.embed_tokens.weight"
_DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
_COPIED = {".json", ".jinja", ".txt", ".model"}


@dataclass(slots=True, frozen=True)
class Export:
    """What was exported from where. Written to videorl_export.json; read by the card."""

    run: str  # the run directory, relative to the export
    step: int
    dtype: str
    parameters: int
    shards: int
    differences: tuple[str, ...]  # between training's frames and those of the exported processor


def export_model(
    source: Path,
    base: Path | None,
    destination: Path,
    *,
    frames: FrameSampling,
    dtype: Literal["bfloat16", "float32"],
    run: str,
    step: int,
    config_toml: str,
    shard_bytes: int = SHARD_BYTES,
) -> Export:
    """Write the model of `source` (a checkpoint's hf folder) to `destination`.

    Args:
        base: the model that training began with, whose key set the export has; None: it is gone, the checkpoint's.
        frames: training's sampling and pixel limits, carried in the processor's config.
        config_toml: the run's resolved config, kept beside the weights.

    Raises:
        UserError: `destination` holds something that is not an export.
        VideorlError: the weights cannot be read, are not those of the base's architecture, or the disk is full.
    """
    check_destination(destination)
    destination = Path(os.path.realpath(destination))  # "." has no name, and a link stays one
    draft = destination.with_name(destination.name + ".partial")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        for origin in (base or source, source):  # what a checkpoint lacks comes from the base
            _copy_files(origin, draft)
        carry_frame_limits(draft, frames)
        bare_video_placeholder(draft)
        _set_dtype(draft / "config.json", dtype)
        parameters, shards = _write_weights(source, base or source, draft, _DTYPES[dtype], shard_bytes)
        export = Export(run, step, dtype, parameters, shards, DIFFERENCES)
        (draft / CONFIG).write_text(config_toml, encoding="utf-8")
        (draft / MARK).write_text(json.dumps(asdict(export), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if destination.exists():
            shutil.rmtree(destination)
        draft.rename(destination)
    except OSError as error:
        raise unwritten(destination, error) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return export


def check_destination(folder: Path) -> None:
    """Raises:
    UserError: `folder` is a file, or holds files and no export.
    """
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() and not (folder / MARK).is_file():
        raise UserError(f"{folder}: not empty and not an export; give a new or an empty folder")


def read_export(folder: Path) -> Export | None:
    """What an exported folder says of itself; None for any other folder."""
    path = folder / MARK
    tree = read_object(path)
    return checked(Export, tree, path, "what `videorl export` writes") if tree else None


def _copy_files(origin: Path, folder: Path) -> None:
    for file in origin.iterdir():
        if file.is_file() and file.suffix in _COPIED and "safetensors" not in file.name and file.name != MARK:
            shutil.copyfile(file, folder / file.name)


def _set_dtype(path: Path, dtype: str) -> None:
    config = read_object(path)
    config.pop("torch_dtype", None)  # its older name
    config["dtype"] = dtype
    for part in ("text_config", "vision_config"):
        if isinstance(config.get(part), dict) and "dtype" in config[part]:
            config[part]["dtype"] = dtype
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def weight_files(model: Path) -> dict[str, Path]:
    """Every key of a model folder with the safetensors file that holds it."""
    found: dict[str, Path] = {}
    for file in sorted(model.glob("*.safetensors")):
        try:
            with safe_open(file, "pt") as reader:
                found |= dict.fromkeys(reader.keys(), file)
        except SafetensorError as error:
            raise VideorlError(f"{file}: cannot be read: {error}; choose another checkpoint") from None
    if not found:
        raise UserError(f"{model}: no *.safetensors in it")
    return found


def _write_weights(source: Path, base: Path, folder: Path, dtype: torch.dtype, limit: int) -> tuple[int, int]:
    """Cast and write shard by shard; no more than one shard is in memory. Returns (parameters, shards)."""
    files = weight_files(source)
    names = _rename(files.keys(), weight_files(base).keys(), source)
    shards = list(_plan(names, files, dtype.itemsize, limit))
    index: dict[str, str] = {}
    parameters = 0
    for number, keys in enumerate(shards, 1):
        file = "model.safetensors" if len(shards) == 1 else f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensors = {key: _read(files[names[key]], names[key]).to(dtype).contiguous() for key in keys}
        parameters += sum(tensor.numel() for tensor in tensors.values())
        index |= dict.fromkeys(keys, file)
        try:
            save_file(tensors, folder / file, metadata={"format": "pt"})
        except SafetensorError as error:  # how safetensors tells of a full disk
            raise VideorlError(f"{folder / file}: cannot be written: {error}") from None
        (folder / file).chmod(0o644)  # safetensors makes files for their owner only
    if len(shards) > 1:
        tree = {"metadata": {"total_size": parameters * dtype.itemsize}, "weight_map": index}
        (folder / "model.safetensors.index.json").write_text(json.dumps(tree, indent=2) + "\n", encoding="utf-8")
    return parameters, len(shards)


def _rename(have: Any, want: Any, source: Path) -> dict[str, str]:
    """Each key of the base → the checkpoint's key with its weights. A tied head may stand in one and not the other.

    Raises:
        VideorlError: the key sets differ otherwise.
    """
    names = {key: key for key in want}
    if _HEAD in want and _HEAD not in have:
        names[_HEAD] = _EMBEDDING
    missing = sorted(set(names.values()) - set(have))
    extra = sorted(set(have) - set(want) - ({_HEAD} if _tied(source) else set()))
    if missing or extra or (names.get(_HEAD) == _EMBEDDING and not _tied(source)):
        raise VideorlError(f"{source}: not the base's weights: missing {missing[:3]}, unknown {extra[:3]}")
    return names


def _tied(model: Path) -> bool:
    return bool(read_object(model / "config.json").get("tie_word_embeddings", False))


def _plan(names: dict[str, str], files: dict[str, Path], itemsize: int, limit: int) -> Iterator[list[str]]:
    """Keys in the base's order, cut where a shard would pass `limit` bytes."""
    shard: list[str] = []
    size = 0
    for key, stored in names.items():
        with safe_open(files[stored], "pt") as reader:
            bytes_ = torch.Size(reader.get_slice(stored).get_shape()).numel() * itemsize
        if shard and size + bytes_ > limit:
            yield shard
            shard, size = [], 0
        shard.append(key)
        size += bytes_
    yield shard


def _read(file: Path, key: str) -> torch.Tensor:
    with safe_open(file, "pt") as reader:
        return reader.get_tensor(key)
