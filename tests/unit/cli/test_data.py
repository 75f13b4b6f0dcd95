"""videorl data: check, prepare and the store's upkeep, from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from builders_data import even_times, write_clip
from builders_rows import rows_by_format, write_rows
from videorl.cli.main import run

ROW = rows_by_format()["video-r1"]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "media").mkdir()
    write_clip(tmp_path / "media" / "a.mp4", even_times(20, 10))
    paths = ["a.mp4", "none.mp4"]
    return write_rows(tmp_path / "rows.json", [ROW | {"problem_id": p, "path": p} for p in paths])


def document(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Any:
    assert run([*map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_check_says_what_would_be_trained(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    media = ("--media-root", tmp_path / "media")
    checked = document(capsys, "data", "check", rows, *media)
    assert checked["files"][0] | {"examples": None} == {
        "path": str(rows),
        "format": "video-r1",
        "read": 2,
        "kept": 2,
        "dropped": {},
        "examples": None,
    }
    assert checked["totals"] == {"read": 2, "kept": 2, "dropped": {}}
    assert checked["media"]["problems"] == {"video_missing": 1}
    opened = document(capsys, "data", "check", rows, *media, "--videos", "--set", "data.max_frames=4")
    assert opened["frames"]["histogram"]["counts"] == [1]


def test_prefixes_are_remapped(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = write_rows(tmp_path / "old.json", [ROW | {"path": "/old/a.mp4"}])
    remap = ("--remap", f"/old={tmp_path / 'media'}")
    assert document(capsys, "data", "check", old, *remap)["media"]["problems"] == {}
    assert run(["data", "check", str(old), "--remap", "nonsense"]) == 2
    assert "OLD=NEW" in capsys.readouterr().err


def test_prepare_fills_a_store_and_writes_what_is_kept(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--media-root", tmp_path / "media", "--store", tmp_path / "store", "--out", tmp_path / "out.parquet")
    done = document(capsys, "data", "prepare", rows, *where)
    assert done["media"] | {"warnings": None} == {
        "distinct": 2,
        "kept": 1,
        "dropped": {"video_missing": 1},
        "warnings": None,
    }
    assert done["questions"] == {"kept": 1, "video_missing": 1}
    checked = document(capsys, "data", "check", tmp_path / "out.parquet")
    assert checked["files"][0]["format"] == "videorl"
    assert checked["media"]["problems"] == {}
    used = document(capsys, "data", "store", "stats", tmp_path / "store")
    assert (used["files"], used["by_codec"]) == (1, {"raw": 1})
    assert document(capsys, "data", "store", "verify", tmp_path / "store")["good"] == 1


def test_a_damaged_store_is_exit_code_1_until_it_is_mended(
    rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    document(capsys, "data", "prepare", rows, "--media-root", tmp_path / "media", "--store", store)
    (frames,) = store.glob("*/frames/*/*")
    frames.write_bytes(frames.read_bytes()[:100])
    assert len(document(capsys, "data", "store", "verify", store, code=1)["damaged"]) == 1
    assert document(capsys, "data", "store", "verify", store, "--remove")["removed"] == 1
    assert document(capsys, "data", "store", "stats", store)["files"] == 0


def test_prune_keeps_no_more_than_it_is_told(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    document(capsys, "data", "prepare", rows, "--media-root", tmp_path / "media", "--store", store)
    assert document(capsys, "data", "store", "prune", store, "--to-gb", "1")["removed_files"] == 0
    assert document(capsys, "data", "store", "prune", store, "--to-gb", "0")["removed_files"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "none.json"], "none.json: no such file"),
        (["prepare", "rows.json"], "--store"),
        (["check", "rows.json", "--set", "data.max_frames=7"], "data.max_frames"),
        (["check", "rows.json", "--png", "x.png"], "nothing to draw"),
        (["check", "rows.json", "--videos", "--png", "x.foo"], "x.foo: no kind of picture"),
        (["check", "rows.json", "--videos", "--png", "none/x.png"], "none/x.png: cannot be written"),
        (["prepare", "rows.json", "--store", "s", "--out", "none/x.parquet"], "none/x.parquet: cannot be written"),
        (["prepare", "rows.json", "--store", "s", "--out", "x.csv"], "ends in .parquet"),
        (["store", "prune", "media", "--to-gb", "inf"], "--to-gb"),
        (["store", "stats", "media"], "holds no frame store"),
        (["prepare", "rows.json", "--store", "s", "--blind-model", "m"], "--out"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    rows: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(rows.parent)
    assert run(["data", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("full", ["kept.parquet.part", "kept.dropped.jsonl.part"])
def test_a_full_disk_is_no_mistake_of_the_user_and_leaves_no_half_file(
    full: str, rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / full).symlink_to("/dev/full")
    where = ["--media-root", str(tmp_path / "media"), "--store", str(tmp_path / "store")]
    assert run(["data", "prepare", str(rows), *where, "--out", str(out / "kept.parquet")]) == 1
    said = f"videorl: {out}/kept.parquet: cannot be written: No space left on device"
    assert capsys.readouterr().err.splitlines()[-1] == said
    assert list(out.iterdir()) == []
