"""Training's frames and prompt form, told to the exported processor.

The processor samples and resizes by its own rules; its config is set so that they agree with training's wherever the
rules can express them. `DIFFERENCES` lists what they cannot, and stands in the export and on the card.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from videorl.errors import UserError, VideorlError
from videorl.eval.documents import read_object
from videorl.types import FrameSampling

_TOKEN_AREA = 32 * 32  # pixels of one vision token in one frame: (patch 16 × merge 2)²
_WRAPPED, _BARE = "<|vision_start|><|video_pad|><|vision_end|>", "<|video_pad|>"

DIFFERENCES = (
    "An odd number of frames: the processor repeats the last one, training leaves one out.",
    "Times are frame index / average rate in the processor and true presentation times in training; "
    "they differ for a variable frame rate.",
    "The processor's decoder and resampling filter differ from training's in single pixel values.",
    "A clip's rotation metadata is applied in training; whether it is here depends on the decoder.",
)


def carry_frame_limits(folder: Path, frames: FrameSampling) -> None:
    """Set fps, frame and pixel limits in every processor file of `folder`.

    Raises:
        VideorlError: the folder has no video processor to set them in.
    """
    video, image = video_limits(frames), image_limits(frames)
    changed = [
        _update(folder / "processor_config.json", {"video_processor": video, "image_processor": image}),
        _update(folder / "video_preprocessor_config.json", {"": video}),
    ]
    _update(folder / "preprocessor_config.json", {"": image})
    if not any(changed):
        raise VideorlError(f"{folder}: neither processor_config.json nor video_preprocessor_config.json in it")


def bare_video_placeholder(folder: Path) -> None:
    """Let the chat template write a video as the bare placeholder.

    Processors put a vision wrapper around each timestamped pair of frames; older ones took the template's own wrapper
    away, newer ones leave it standing around the whole video, a form that the base model has not seen. The bare
    placeholder is expanded to the same ids by all of them.
    """
    template = folder / "chat_template.jinja"
    if template.is_file():
        template.write_text(template.read_text(encoding="utf-8").replace(_WRAPPED, _BARE), encoding="utf-8")
    for name in ("tokenizer_config.json", "chat_template.json"):
        path = folder / name
        if not path.is_file():
            continue
        tree = read_object(path)
        if isinstance(tree.get("chat_template"), str):
            tree["chat_template"] = tree["chat_template"].replace(_WRAPPED, _BARE)
            path.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def video_limits(frames: FrameSampling) -> dict[str, Any]:
    """The keys of Qwen3VLVideoProcessor.

    Its pixel budget is one for the whole video, so that a short clip would get larger frames than in training;
    `cap_pixels_per_frame` limits each frame instead. The cap is counted in vision tokens and need not be whole.
    """
    return {
        "fps": frames.fps,
        "num_frames": None,
        "min_frames": frames.min_frames,
        "max_frames": frames.max_frames,
        "do_sample_frames": True,
        "do_resize": True,
        "size": {
            "shortest_edge": frames.min_pixels * frames.min_frames,
            "longest_edge": frames.max_pixels * frames.max_frames,
        },
        "cap_pixels_per_frame": True,
        "max_video_tokens": frames.max_pixels / _TOKEN_AREA,
    }


def image_limits(frames: FrameSampling) -> dict[str, Any]:
    """The keys of the image processor; its older names for the same limits would win, and are removed by null."""
    return {
        "size": {"shortest_edge": frames.min_pixels, "longest_edge": frames.max_pixels},
        "min_pixels": None,
        "max_pixels": None,
    }


def _update(path: Path, parts: dict[str, dict[str, Any]]) -> bool:
    """Set keys in the named parts of a JSON file ("" is its top); null removes. False where nothing was there."""
    if not path.is_file():
        return False
    tree = read_object(path)
    found = [(tree if part == "" else tree[part], keys) for part, keys in parts.items() if part == "" or part in tree]
    if not all(isinstance(target, dict) for target, _ in found):
        raise UserError(f"{path}: its processors are no objects; a Qwen3-VL folder is expected")
    for target, keys in found:
        target.update(keys)
        for key in [name for name, value in keys.items() if value is None]:
            del target[key]
    path.write_text(json.dumps(tree, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return bool(found)
