"""What the control gives TRL: the same questions in the same form, so far as images allow."""

import importlib
import io
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from transformers import AutoModelForImageTextToText, AutoProcessor, Qwen3VLProcessor

from builders_data import even_times, video, write_clip
from videorl.data.decoding import decode
from videorl.data.prompt import PromptBuilder, VideoInput, video_input
from videorl.data.templates import letter
from videorl.errors import VideorlError
from videorl.playground.tiny_model import make_tiny_model
from videorl.types import FrameRef, Frames, FrameSampling, Prompt, Question

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
SAMPLING = FrameSampling(fps=2.0, max_frames=6)


@pytest.fixture(scope="module")
def control() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        return importlib.import_module("trl_control")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny_model(folder, seed=0)
    return folder


@pytest.fixture(scope="module")
def processor(folder: Path) -> Qwen3VLProcessor:
    return AutoProcessor.from_pretrained(folder, local_files_only=True)


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Frames:
    return decode(video(write_clip(tmp_path_factory.mktemp("clip") / "clip.mp4", even_times(90, 29.97))), SAMPLING)


def prompt_of(folder: Path, frames: Frames) -> Prompt:
    media = video(Path("/v.mp4"))
    question = Question("q/1", "multiple_choice", "What is shown?", ("a cat", "a dog"), 0, (media,), "q")
    return PromptBuilder(folder, letter, 10_000).build(question, [(FrameRef("key", media, SAMPLING), frames)])


def test_the_ids_are_the_videos_with_image_pads_for_video_pads(
    control: ModuleType, folder: Path, processor: Qwen3VLProcessor, frames: Frames
) -> None:
    prompt = prompt_of(folder, frames)
    asked = control.image_prompt(processor, prompt, frames)
    images = iter(asked.images)
    content = [
        part | ({"image": next(images)} if part["type"] == "image" else {}) for part in asked.messages[0]["content"]
    ]
    filled = [{"role": "user", "content": content}]  # as TRL hands the conversation to the processor
    options = {"tokenize": True, "return_dict": True, "add_generation_prompt": True}
    ids = processor.apply_chat_template([filled], **options)["input_ids"][0]  # type: ignore[call-overload]
    assert processor.video_token_id not in ids
    assert len(ids) == len(prompt.token_ids)
    assert [i if i != processor.image_token_id else processor.video_token_id for i in ids] == prompt.token_ids.tolist()


def test_the_images_are_the_first_frames_of_the_pairs(
    control: ModuleType, folder: Path, processor: Qwen3VLProcessor, frames: Frames
) -> None:
    asked = control.image_prompt(processor, prompt_of(folder, frames), frames)
    stored = [np.array(Image.open(io.BytesIO(control.png(image)))) for image in asked.images]
    np.testing.assert_array_equal(np.stack(stored), frames.pixels[::2])


def test_a_model_answers_a_video_of_doubled_frames_as_it_answers_the_images(
    control: ModuleType, folder: Path, processor: Qwen3VLProcessor, frames: Frames
) -> None:
    doubled = Frames(np.repeat(frames.pixels[::2], 2, axis=0), frames.timestamps, frames.indices)
    prompt = prompt_of(folder, doubled)
    clip = video_input(doubled)
    given = {"videos": [clip.pixels], "video_metadata": [clip.metadata], **VideoInput.PROCESSOR_KWARGS}
    as_video = processor(text=[prompt.text], return_tensors="pt", **given)  # type: ignore[arg-type]
    as_images = control.processed(processor, control.image_prompt(processor, prompt, doubled))
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    with torch.no_grad():
        ours, theirs = model(**as_video).logits[0, -1], model(**as_images).logits[0, -1]
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_frames_that_the_processor_would_resize_are_refused(
    control: ModuleType, folder: Path, processor: Qwen3VLProcessor, frames: Frames
) -> None:
    large = Frames(np.zeros((2, 512, 512, 3), np.uint8), frames.timestamps[:2], frames.indices[:2])
    with pytest.raises(VideorlError, match="not those of the video"):
        control.image_prompt(processor, prompt_of(folder, large), large)


def test_the_difference_is_taken_over_the_seeds_that_both_have(control: ModuleType) -> None:
    ours = {0: [0.4, 0.6], 1: [0.5, 0.7], 2: [0.3, 0.9], 7: [0.0, 0.0]}
    theirs = {0: [0.5, 0.6], 1: [0.4, 0.6], 2: [0.3, 0.4]}
    found = control.compared(ours, theirs)
    assert found["seeds"] == [0, 1, 2]
    paired = stats.ttest_rel([0.5, 0.6, 0.6], [0.55, 0.5, 0.35]).confidence_interval(0.95)  # type: ignore[attr-defined]
    assert found["mean"] == pytest.approx((paired.low + paired.high) / 2)
    assert found["mean_spread"] == pytest.approx((paired.high - paired.low) / 2)
    assert found["steps_within"] == 2
