"""The card's usage code: complete, needing only what it imports, with training's frames and prompt.

It is run by a test. `$`-names are filled in; everything else stands on the card as it is here.
"""

from __future__ import annotations

import json
from string import Template

from videorl.data.templates import Slot
from videorl.data.templates import Template as PromptTemplate
from videorl.types import FrameSampling, Media, Question

_CODE = Template('''\
import math

import av
import numpy as np
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

MODEL = "."  # this folder
VIDEO = "clip.mp4"
PROMPT = $prompt
FPS, MIN_FRAMES, MAX_FRAMES = $fps, $min_frames, $max_frames
MIN_PIXELS, MAX_PIXELS = $min_pixels, $max_pixels  # of one frame


def frame_size(height, width):
    """Multiples of 32, the area within bounds."""
    h, w = (max(32, round(side / 32) * 32) for side in (height, width))
    if h * w > MAX_PIXELS:
        scale = math.sqrt(height * width / MAX_PIXELS)
        h, w = (max(32, math.floor(side / scale / 32) * 32) for side in (height, width))
    elif h * w < MIN_PIXELS:
        scale = math.sqrt(MIN_PIXELS / (height * width))
        h, w = (math.ceil(side * scale / 32) * 32 for side in (height, width))
    return h, w


def read_frames(path):
    """Pixels (uint8, [T, 3, H, W]) and presentation times in seconds, an even number of frames evenly spread."""
    with av.open(path) as container:
        times = [frame.time for frame in container.decode(video=0)]
    duration = times[-1] - times[0] + (np.median(np.diff(times)) if len(times) > 1 else 0)
    count = 2 * int(min(duration * FPS + 1e-6, MAX_FRAMES, len(times)) / 2)
    indices = np.linspace(0, len(times) - 1, max(count, MIN_FRAMES)).round().astype(int).tolist()
    pictures = {}
    with av.open(path) as container:
        for index, frame in enumerate(container.decode(video=0)):
            if index in indices:
                height, width = frame_size(frame.height, frame.width)
                scaled = frame.reformat(width=width, height=height, format="rgb24", interpolation="BICUBIC")
                pictures[index] = scaled.to_ndarray()
    pixels = torch.from_numpy(np.stack([pictures[index] for index in indices])).permute(0, 3, 1, 2)
    return pixels, [times[index] for index in indices]


processor = AutoProcessor.from_pretrained(MODEL)
model = AutoModelForImageTextToText.from_pretrained(MODEL, dtype="auto")
model.to("cuda" if torch.cuda.is_available() else "cpu")

pixels, times = read_frames(VIDEO)
messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": PROMPT}]}]
text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
stamps = [round(1000 * time) for time in times]  # in ms at 1000 frames a second: the prompt shows the true times
inputs = processor(
    text=[text],
    videos=[pixels],
    video_metadata=[{"fps": 1000.0, "frames_indices": stamps, "total_num_frames": stamps[-1] + 1}],
    do_sample_frames=False,
    do_resize=False,
    return_tensors="pt",
).to(model.device)
answer = model.generate(**inputs, max_new_tokens=$max_new_tokens, do_sample=False)
print(processor.decode(answer[0, inputs.input_ids.shape[1] :], skip_special_tokens=True))
''')

_EXAMPLE = Question(
    id="example",
    task="multiple_choice",
    text="What does the person pick up?",
    options=("a cup", "a book", "a phone", "nothing"),
    answer=0,
    media=(Media("video", "clip.mp4"),),
    source="example",
)


def usage_code(template: PromptTemplate, frames: FrameSampling, max_new_tokens: int) -> str:
    """Python that asks an exported model an example question about clip.mp4.

    Args:
        template: the user's turn that the model was trained on.
        frames: training's sampling and pixel limits.
    """
    words = "".join(part for part in template(_EXAMPLE) if not isinstance(part, Slot))
    return _CODE.substitute(
        prompt=json.dumps(words, ensure_ascii=False),
        fps=frames.fps,
        min_frames=frames.min_frames,
        max_frames=frames.max_frames,
        min_pixels=frames.min_pixels,
        max_pixels=frames.max_pixels,
        max_new_tokens=max_new_tokens,
    )
