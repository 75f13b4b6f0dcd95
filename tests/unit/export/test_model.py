"""Exports of tiny models: the same keys, logits and prompt ids, whatever the head is tied to."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageTextToText, AutoProcessor

from videorl.errors import UserError, VideorlError
from videorl.export.model import MARK, Export, export_model, read_export, weight_files
from videorl.playground.tiny_model import make_tiny_model
from videorl.types import FrameSampling

FRAMES = FrameSampling()


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "model"
    make_tiny_model(folder, seed=1, tie=request.param)
    return folder


@pytest.fixture(scope="module")
def checkpoint(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other weights in the base's folder layout, as training leaves them."""
    folder = tmp_path_factory.mktemp("run") / "hf"
    shutil.copytree(base, folder)
    weights = load_file(base / "model.safetensors")
    save_file({key: w * 1.01 for key, w in weights.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def export(checkpoint: Path, base: Path | None, to: Path, dtype: str = "float32", **options: int) -> Export:
    return export_model(
        checkpoint,
        base,
        to,
        frames=FRAMES,
        dtype=dtype,  # type: ignore[arg-type]
        run="../run",
        step=80,
        config_toml="[run]\n",
        **options,
    )


def logits(folder: Path) -> torch.Tensor:
    model = AutoModelForImageTextToText.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    with torch.no_grad():
        return model(input_ids=torch.arange(40)[None]).logits


def test_the_export_has_the_key_set_of_the_base(base: Path, checkpoint: Path, tmp_path: Path) -> None:
    export(checkpoint, base, tmp_path / "out")
    assert weight_files(tmp_path / "out").keys() == weight_files(base).keys()


def test_a_float32_export_gives_the_checkpoint_logits(base: Path, checkpoint: Path, tmp_path: Path) -> None:
    export(checkpoint, base, tmp_path / "out")
    assert torch.equal(logits(tmp_path / "out"), logits(checkpoint))
    assert not torch.equal(logits(tmp_path / "out"), logits(base))


def test_a_bfloat16_export_is_the_rounded_checkpoint(base: Path, checkpoint: Path, tmp_path: Path) -> None:
    export(checkpoint, base, tmp_path / "out", "bfloat16")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
    exported, trained = load_file(tmp_path / "out" / "model.safetensors"), load_file(checkpoint / "model.safetensors")
    assert all(torch.equal(exported[key], trained[key].bfloat16()) for key in trained)


def test_shards_hold_every_key_once_and_load_as_one_model(base: Path, checkpoint: Path, tmp_path: Path) -> None:
    found = export(checkpoint, base, tmp_path / "out", shard_bytes=1_500_000)
    assert found.shards > 2
    held = []
    for file in (tmp_path / "out").glob("*.safetensors"):
        assert file.stat().st_mode & 0o777 == 0o644
        with safe_open(file, "pt") as reader:
            held += list(reader.keys())
    assert sorted(held) == sorted(weight_files(base))
    assert torch.equal(logits(tmp_path / "out"), logits(checkpoint))


def test_a_head_that_only_one_side_stores_follows_the_base(base: Path, checkpoint: Path, tmp_path: Path) -> None:
    if not json.loads((base / "config.json").read_text())["tie_word_embeddings"]:
        pytest.skip("an untied head is always stored")
    weights = load_file(checkpoint / "model.safetensors")
    embedding = weights["model.language_model.embed_tokens.weight"]
    spelled = tmp_path / "spelled"
    shutil.copytree(checkpoint, spelled)
    save_file(
        {**weights, "lm_head.weight": embedding.clone()}, spelled / "model.safetensors", metadata={"format": "pt"}
    )
    export(spelled, base, tmp_path / "without")
    assert "lm_head.weight" not in weight_files(tmp_path / "without")
    export(checkpoint, spelled, tmp_path / "with")
    assert torch.equal(load_file(tmp_path / "with" / "model.safetensors")["lm_head.weight"], embedding)


def test_weights_of_another_architecture_are_refused(base: Path, checkpoint: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    shutil.copytree(checkpoint, odd)
    weights = load_file(odd / "model.safetensors")
    dropped = next(key for key in weights if "visual" in key)
    del weights[dropped]
    save_file(weights, odd / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(VideorlError, match=dropped):
        export(odd, base, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_minute_of_video_has_training_grid_and_markers(base: Path, checkpoint: Path, tmp_path: Path) -> None:
    """60 s at 5 fps, 640x360: 24 frames of 416x224, marked with the mean time of each pair, wrapped once."""
    export(checkpoint, base, tmp_path / "out")
    processor = AutoProcessor.from_pretrained(tmp_path / "out", local_files_only=True)
    messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "What?"}]}]
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    inputs = processor(
        text=[text],
        videos=[torch.zeros((300, 3, 360, 640), dtype=torch.uint8)],
        video_metadata=[{"fps": 5.0, "total_num_frames": 300, "duration": 60.0}],
        return_tensors="pt",
    )
    assert inputs.video_grid_thw.tolist() == [[12, 224 // 16, 416 // 16]]
    times = np.linspace(0, 299, 24).round().reshape(12, 2).mean(axis=1) / 5
    pair = "<|vision_start|>" + "<|video_pad|>" * 91 + "<|vision_end|>"
    expected = "<|im_start|>user\n" + "".join(f"<{t:.1f} seconds>{pair}" for t in times) + "What?<|im_end|>\n"
    assert processor.tokenizer.decode(inputs.input_ids[0]) == expected + "<|im_start|>assistant\n"


def test_the_frame_cap_is_per_frame_for_clips_of_any_length(base: Path, checkpoint: Path, tmp_path: Path) -> None:
    export(checkpoint, base, tmp_path / "out")
    processor = AutoProcessor.from_pretrained(tmp_path / "out", local_files_only=True)
    grids = [
        processor.video_processor(
            videos=[torch.zeros((frames, 3, 480, 640), dtype=torch.uint8)], do_sample_frames=False, return_tensors="pt"
        ).video_grid_thw.tolist()
        for frames in (2, 10, 24)
    ]
    assert grids == [[[1, 16, 22]], [[5, 16, 22]], [[12, 16, 22]]]  # 352x256 = 90,112 pixels of at most 100,000


def test_what_an_export_says_of_itself_reads_back(base: Path, checkpoint: Path, tmp_path: Path) -> None:
    found = export(checkpoint, base, tmp_path / "out")
    assert read_export(tmp_path / "out") == found
    assert (found.step, found.run, found.parameters > 1_000_000) == (80, "../run", True)
    assert read_export(base) is None


def test_only_an_export_is_overwritten(base: Path, checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    with pytest.raises(UserError, match="not empty and not an export"):
        export(checkpoint, base, tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep me"
    (tmp_path / "empty").mkdir()
    export(checkpoint, base, tmp_path / "empty")
    export(base, base, tmp_path / "empty")
    assert (tmp_path / "empty" / MARK).is_file()
    assert torch.equal(logits(tmp_path / "empty"), logits(base))


def test_a_base_that_is_gone_leaves_the_checkpoint_keys(checkpoint: Path, tmp_path: Path) -> None:
    export(checkpoint, None, tmp_path / "out")
    assert weight_files(tmp_path / "out").keys() == weight_files(checkpoint).keys()


def test_a_damaged_checkpoint_is_named_and_leaves_nothing(checkpoint: Path, base: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "hf"
    shutil.copytree(checkpoint, damaged)
    (damaged / "model.safetensors").write_bytes((checkpoint / "model.safetensors").read_bytes()[:-100])
    with pytest.raises(VideorlError, match=r"hf/model\.safetensors: cannot be read: "):
        export(damaged, base, tmp_path / "out")
    (damaged / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: not valid JSON"):
        export(damaged, base, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


def test_the_current_folder_can_be_exported_to(
    checkpoint: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    export(checkpoint, base, Path())
    assert (tmp_path / "here" / MARK).is_file()


@pytest.mark.parametrize("text", ["{", "[]", '{"run": "../run"}', '{"run": "r", "step": "x"}'])
def test_a_folder_whose_mark_is_damaged_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / MARK).write_text(text)
    with pytest.raises(UserError, match=f"{MARK}: "):
        read_export(tmp_path)
