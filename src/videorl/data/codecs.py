"""How frames stand on disk: one safetensors file, whose pixels are raw, lossless WebP or JPEG.

Every reader gets what `read_frames` decodes from the stored form, the process that stored them included. Raw pixels are
mapped, not read. WebP is the lossless form because it reads fastest for its size: FFV1 is a tenth smaller and takes
three times as long, x264's lossless mode is larger and slower (docs/data.md has the numbers).
"""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import UInt8
from PIL import Image, UnidentifiedImageError
from safetensors.numpy import save_file

from videorl.types import Frames

Codec = Literal["raw", "lossless", "jpeg"]
JPEG_QUALITY = 95
_DTYPES = {"U8": np.uint8, "F64": np.float64, "I32": np.int32, "I64": np.int64}


def pixel_form(codec: Codec) -> str:
    """What of the codec is visible in the pixels; part of the store's key."""
    return f"jpeg{JPEG_QUALITY}" if codec == "jpeg" else "exact"


def write_frames(path: Path, frames: Frames, codec: Codec) -> None:
    """Write `frames`; the caller moves the file to its place."""
    tensors: dict[str, np.ndarray] = {"timestamps": frames.timestamps, "indices": frames.indices}
    if codec == "raw":
        tensors["pixels"] = np.ascontiguousarray(frames.pixels)
    else:
        pictures = [_compressed(picture, codec) for picture in frames.pixels]
        tensors["pictures"] = np.frombuffer(b"".join(pictures), np.uint8)
        tensors["ends"] = np.cumsum([len(picture) for picture in pictures], dtype=np.int64)
    shape = json.dumps(list(frames.pixels.shape))
    save_file(tensors, path, {"codec": codec, "shape": shape, "warnings": json.dumps(frames.warnings)})
    path.chmod(0o644)  # safetensors makes files for their owner only; a store is shared


def read_frames(path: Path) -> Frames:
    """Frames as every reader sees them.

    Raises:
        FileNotFoundError: they are not there (any more).
        ValueError: the file is damaged.
    """
    tensors, metadata = _map_tensors(path)
    try:
        shape = tuple(json.loads(metadata["shape"]))
        if metadata["codec"] == "raw":
            pixels = tensors["pixels"]
        else:
            pixels = np.stack([_expanded(p) for p in np.split(tensors["pictures"], tensors["ends"][:-1])])
        if pixels.shape != shape or pixels.dtype != np.uint8:
            raise ValueError(f"{path}: {pixels.shape} pixels where {shape} were written")
        warnings = tuple(json.loads(metadata["warnings"]))
        return Frames(pixels, np.array(tensors["timestamps"]), np.array(tensors["indices"]), warnings)
    except (KeyError, OSError, UnidentifiedImageError) as error:
        raise ValueError(f"{path}: damaged: {error}") from None


def read_codec(path: Path) -> str:
    """The form in which a file holds its frames.

    Raises:
        FileNotFoundError, ValueError: as `read_frames`.
    """
    return _map_tensors(path)[1].get("codec", "unknown")


def _map_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors of a safetensors file as read-only maps (the library's own reader copies them)."""
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header: dict[str, Any] = json.loads(file.read(length)) if length < size else {}
        metadata, tensors = header.pop("__metadata__"), {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            dtype, offset = _DTYPES[entry["dtype"]], 8 + length + begin
            if 8 + length + end > size or (end - begin) != np.prod(entry["shape"]) * np.dtype(dtype).itemsize:
                raise ValueError("cut off")
            tensors[name] = np.memmap(path, dtype, "r", offset, tuple(entry["shape"]))
        return tensors, metadata
    except (struct.error, KeyError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{path}: damaged: {error}") from None


def _compressed(picture: UInt8[np.ndarray, "H W 3"], codec: Codec) -> bytes:
    buffer = io.BytesIO()
    if codec == "jpeg":
        Image.fromarray(picture).save(buffer, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    else:
        Image.fromarray(picture).save(buffer, "WEBP", lossless=True, method=0)  # method 0 writes fastest
    return buffer.getvalue()


def _expanded(data: UInt8[np.ndarray, "n"]) -> UInt8[np.ndarray, "H W 3"]:
    return np.asarray(Image.open(io.BytesIO(data.tobytes())).convert("RGB"))
