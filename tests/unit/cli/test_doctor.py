"""videorl doctor: what is missing is named, and the exit code says it."""

from __future__ import annotations

import json

import pytest

from videorl.cli import doctor as doctor_module
from videorl.cli.doctor import Finding
from videorl.cli.main import run


def test_this_machine_is_examined_for_real(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    found = {finding["name"]: finding for finding in document["findings"]}
    assert {"python", "torch", "vllm", "ray", "av", "devices", "/dev/shm", "disk", "decode"} <= found.keys()
    assert found["torch"]["good"]
    assert not found["torchcodec"]["needed"]
    assert found["decode"]["good"], found["decode"]["said"]
    assert code == (0 if document["healthy"] else 1)


def test_an_unmet_need_exits_with_1_and_a_note_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    note = Finding("extra", good=False, said="not here", needed=False)
    monkeypatch.setattr(doctor_module, "examine", lambda: iter([note]))
    assert run(["doctor"]) == 0
    need = Finding("torch", good=False, said="ImportError: no module")
    monkeypatch.setattr(doctor_module, "examine", lambda: iter([note, need]))
    assert run(["doctor"]) == 1
    assert "MISSING torch" in capsys.readouterr().out
