from __future__ import annotations

import mmap
import os
from pathlib import Path

from videorl.rollout.shared_segments import remove_stale_segments


def segment(folder: Path, name: str, age: float = 1_000.0) -> Path:
    path = folder / name
    path.write_bytes(bytes(4_096))
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age))
    return path


def test_only_old_unused_segments_of_engines_are_removed(tmp_path: Path) -> None:
    segment(tmp_path, "psm_dead")
    segment(tmp_path, "VLLM_MEDIA_1_dead")
    kept = [
        segment(tmp_path, "psm_young", age=1.0),
        segment(tmp_path, "somebody_elses"),
        opened := segment(tmp_path, "psm_open"),
        mapped := segment(tmp_path, "psm_mapped"),
    ]
    with mapped.open("r+b") as file:
        view = mmap.mmap(file.fileno(), 4_096)
    with opened.open("rb"):
        removed = remove_stale_segments(tmp_path)
    view.close()
    assert sorted(removed) == ["VLLM_MEDIA_1_dead", "psm_dead"]
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_a_segment_is_stale_once_its_last_user_is_gone(tmp_path: Path) -> None:
    path = segment(tmp_path, "psm_mapped")
    with path.open("r+b") as file:
        view = mmap.mmap(file.fileno(), 4_096)
    assert remove_stale_segments(tmp_path) == []
    view.close()
    assert remove_stale_segments(tmp_path) == ["psm_mapped"]


def test_a_machine_without_shared_memory_folder_has_nothing_stale(tmp_path: Path) -> None:
    assert remove_stale_segments(tmp_path / "absent") == []
