from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from videorl.rollout import weights
from videorl.rollout.weights import VERSION_KEY, SharedMemorySender


def read(folder: Path) -> dict[str, torch.Tensor]:
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as staged:
            tensors |= {name: staged.get_tensor(name) for name in staged.keys()}  # noqa: SIM118
    return tensors


def test_staged_tensors_come_back_in_the_engines_dtype(tmp_path: Path) -> None:
    sender = SharedMemorySender(tmp_path / "run", torch.bfloat16)
    masters = {"a": torch.randn(3, 4), "b": torch.randn(5, 2).t()}
    handle = sender.stage(3, masters.items())
    assert (handle.version, handle.transport) == (3, "shm")
    staged = read(Path(handle.location))
    assert {name: tensor.dtype for name, tensor in staged.items()} == dict.fromkeys("ab", torch.bfloat16)
    assert all(torch.equal(staged[name], masters[name].bfloat16()) for name in masters)


def test_tensors_that_share_storage_are_staged_apart(tmp_path: Path) -> None:
    tensor = torch.randn(4)
    handle = SharedMemorySender(tmp_path / "run", torch.float32).stage(1, [("a", tensor), ("b", tensor)])
    assert read(Path(handle.location)).keys() == {"a", "b"}


def test_a_large_version_is_cut_into_files_that_all_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "SHARD_BYTES", 100)
    handle = SharedMemorySender(tmp_path / "run", torch.float32).stage(
        4, ((f"p{i}", torch.full((20,), float(i))) for i in range(5))
    )
    files = sorted(Path(handle.location).iterdir())
    assert len(files) == 3
    for file in files:
        with safe_open(file, "pt") as staged:
            assert staged.metadata()[VERSION_KEY] == "4"
    assert torch.equal(read(Path(handle.location))["p4"], torch.full((20,), 4.0))


def test_a_version_that_failed_half_way_has_no_final_name(tmp_path: Path) -> None:
    sender = SharedMemorySender(tmp_path / "run", torch.float32)

    def failing():
        yield "a", torch.zeros(2)
        raise RuntimeError("the rank died")

    with pytest.raises(RuntimeError):
        sender.stage(1, failing())
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["version-000001.partial"]
    assert read(Path(sender.stage(1, [("a", torch.ones(2))]).location))["a"].tolist() == [1, 1]


def test_release_removes_one_version_and_close_all(tmp_path: Path) -> None:
    sender = SharedMemorySender(tmp_path / "run", torch.float32)
    first, second = (sender.stage(version, [("a", torch.zeros(2))]) for version in (1, 2))
    sender.release(first)
    sender.release(first)
    assert not Path(first.location).exists()
    assert Path(second.location).is_dir()
    sender.close()
    assert not (tmp_path / "run").exists()


def test_what_an_earlier_process_left_is_removed(tmp_path: Path) -> None:
    SharedMemorySender(tmp_path / "run", torch.float32).stage(1, [("a", torch.zeros(2))])
    SharedMemorySender(tmp_path / "run", torch.float32)
    assert not list((tmp_path / "run").iterdir())
