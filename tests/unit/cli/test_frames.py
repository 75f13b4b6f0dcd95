"""videorl frames: the frames that a model would see."""

import json
from pathlib import Path

import pytest
from PIL import Image

from builders_data import even_times, write_clip
from videorl.cli.main import run


def test_the_document_names_frames_times_size_and_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_clip(tmp_path / "clip.mp4", even_times(1800, 30), size=(360, 640), gop=250)
    assert run(["frames", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["path"] == str(path)
    assert (document["width"], document["height"]) == (416, 224)
    assert document["vision_tokens"] == 1092
    assert len(document["indices"]) == 24
    assert document["timestamps"] == pytest.approx([i / 30 for i in document["indices"]], abs=6e-4)


def test_fewer_frames_and_pixels_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_clip(tmp_path / "clip.mp4", even_times(100, 10))
    assert run(["frames", str(path), "--max-frames", "4", "--max-pixels", "4096", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["indices"]) == 4
    assert document["width"] * document["height"] <= 4096


def test_the_contact_sheet_holds_every_frame(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_clip(tmp_path / "clip.mp4", even_times(100, 10))
    assert run(["frames", str(path), "--out", str(tmp_path / "sheet")]) == 0
    shown = capsys.readouterr().out
    assert "100 frames of h264, 10.0 s" in shown
    (sheet,) = (tmp_path / "sheet").iterdir()
    assert str(sheet) in shown
    with Image.open(sheet) as picture:
        assert picture.size == (6 * 128, 2 * (96 + 20))


def test_a_file_that_is_no_video_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.mp4").write_text("<html>")
    for name, problem in (("page.mp4", "not a video"), ("none.mp4", "no such file")):
        assert run(["frames", str(tmp_path / name)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert problem in line
        assert name in line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_no_mistake_of_the_user_and_leaves_no_half_sheet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_clip(tmp_path / "clip.mp4", even_times(20, 10))
    sheets = tmp_path / "sheets"
    sheets.mkdir()
    (sheets / "clip-frames.png.part").symlink_to("/dev/full")
    assert run(["frames", str(path), "--out", str(sheets)]) == 1
    said = f"videorl: {sheets}/clip-frames.png: cannot be written: No space left on device\n"
    assert capsys.readouterr().err == said
    assert list(sheets.iterdir()) == []
