"""How frames stand on disk: one safetensors file, whose pixels are raw, lossless or JPEG.

Every reader gets what `read_frames` decodes from the stored form, the process that stored them included. Raw pixels are
mapped, not read.
"""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any, Literal

import av
import numpy as np
from av.error import FFmpegError
from av.video.stream import VideoStream
from jaxtyping import UInt8
from PIL import Image
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
    elif codec == "lossless":
        tensors["ffv1"] = np.frombuffer(_to_ffv1(frames.pixels), np.uint8)
    else:
        pictures = [_to_jpeg(frame) for frame in frames.pixels]
        tensors["jpeg"] = np.frombuffer(b"".join(pictures), np.uint8)
        tensors["ends"] = np.cumsum([len(picture) for picture in pictures], dtype=np.int64)
    shape = json.dumps(list(frames.pixels.shape))
    save_file(tensors, path, {"codec": codec, "shape": shape, "warnings": json.dumps(frames.warnings)})


def read_frames(path: Path) -> Frames:
    """Frames as every reader sees them.

    Raises:
        FileNotFoundError: they are not there (any more).
        ValueError: the file is damaged.
    """
    tensors, metadata = _map_tensors(path)
    try:
        codec, shape = metadata["codec"], tuple(json.loads(metadata["shape"]))
        if codec == "raw":
            pixels = tensors["pixels"]
        elif codec == "lossless":
            pixels = _from_ffv1(tensors["ffv1"].tobytes())
        else:
            pixels = np.stack([_from_jpeg(p) for p in np.split(tensors["jpeg"], tensors["ends"][:-1])])
        if pixels.shape != shape or pixels.dtype != np.uint8:
            raise ValueError(f"{path}: {pixels.shape} pixels where {shape} were written")
        warnings = tuple(json.loads(metadata["warnings"]))
        return Frames(pixels, np.array(tensors["timestamps"]), np.array(tensors["indices"]), warnings)
    except (KeyError, FFmpegError, OSError) as error:
        raise ValueError(f"{path}: damaged: {error}") from None


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


def _to_jpeg(picture: UInt8[np.ndarray, "H W 3"]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return buffer.getvalue()


def _from_jpeg(data: UInt8[np.ndarray, "n"]) -> UInt8[np.ndarray, "H W 3"]:
    return np.asarray(Image.open(io.BytesIO(data.tobytes())).convert("RGB"))


def _to_ffv1(pixels: UInt8[np.ndarray, "T H W 3"]) -> bytes:
    """FFV1 in planar RGB: exact, and about half of raw on real video."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as container:
        stream = container.add_stream("ffv1", rate=1)
        assert isinstance(stream, VideoStream)
        stream.height, stream.width, stream.pix_fmt = pixels.shape[1], pixels.shape[2], "gbrp"
        for picture in pixels:
            planar = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            container.mux(stream.encode(planar.reformat(format="gbrp")))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def _from_ffv1(data: bytes) -> UInt8[np.ndarray, "T H W 3"]:
    with av.open(io.BytesIO(data), "r") as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
