"""A run's folder as people leave it."""

from pathlib import Path

from videorl.monitor.run_files import RunFiles
from videorl.monitor.steps import steps_of


def test_only_a_whole_step_name_is_a_step() -> None:
    names = ("step-000020", "step-000003.jsonl", "step-abc", "step-000020-old", "step-000004.jsonl.bak")
    assert steps_of(map(Path, names)) == [3, 20]


def test_lines_and_a_status_that_are_no_objects_hide_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 1}\n{"ste\n[1]\n\xff\n{"step": 4}\n{"step": 5')
    (tmp_path / "status.json").write_text("[1]")
    run = RunFiles(tmp_path, ())
    assert run.metrics() == [{"step": 1}, {"step": 4}]
    assert run.status() == {}
