"""The command line as a whole: help at once, one line for a fault, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from videorl.cli.main import run

VIDEORL = str(Path(sys.executable).with_name("videorl"))
HEAVY = ("torch", "transformers", "ray", "vllm", "av", "numpy", "pyarrow", "pydantic")


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom videorl.cli.main import run\nrun(['--help'])\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "train" in ended.stdout
    assert ended.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trian", "x.toml"], "No such command 'trian'. Did you mean 'train'?"),
        (["train"], "Missing argument"),
        (["train", "x.toml", "--dry-runs"], "No such option: --dry-runs"),
        (["train", "missing.toml"], "missing.toml: no such config file"),
        (["score", "missing.jsonl"], "missing.jsonl: no such file"),
        (["score", "missing.jsonl", "--profile", "box"], "'box' is not one of"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("videorl: ")
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_the_command_alone_shows_its_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "playground" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip()[0].isdigit()


def test_a_reader_that_leaves_early_gets_no_traceback(tmp_path: Path) -> None:
    lines = '{"response": "B", "options": ["x", "y"], "answer": "B"}\n' * 20_000
    (tmp_path / "many.jsonl").write_text(lines)
    shell = f"'{VIDEORL}' score '{tmp_path}/many.jsonl' | head -n 1"
    ended = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert ended.stdout.count("\n") == 1
    assert ended.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_the_output_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"response": "B", "options": ["x", "y"], "answer": "B"}\n')
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [VIDEORL, "score", str(tmp_path / "one.jsonl")], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 1
    assert ended.stderr == "videorl: No space left on device\n"


def test_output_is_utf_8_in_any_locale_and_may_be_closed(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"response": "\\u4e2d\\ud800", "options": ["x", "y"], "answer": "B"}\n')
    command = f"PYTHONIOENCODING=latin-1 '{VIDEORL}' score '{tmp_path}/one.jsonl'"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert json.loads(ended.stdout)["response"] == "\u4e2d\ud800"
    closed = subprocess.run(["bash", "-c", f"{command} >&-"], capture_output=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_a_deleted_current_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = f"cd '{tmp_path}/gone' && rmdir '{tmp_path}/gone' && '{VIDEORL}' data check x.json"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"videorl: the current directory {tmp_path}/gone has been deleted; go to one that exists\n"
