"""From the trainer's process to the replicas: the sender's side, and the shared-memory way.

    trainer rank 0 ── stage ──► /dev/shm/<run>/version-000003/*.safetensors ──► every replica maps it and copies

Invariant: a folder with its final name is complete; it stays until `release`, which comes after the last replica.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import save_file

from videorl.types import WeightHandle

SHARD_BYTES = 1 << 30
VERSION_KEY = "version"  # in each file's metadata: the receiver checks it against the handle


class WeightSender(Protocol):
    """How the trainer hands its weights over. Lives on rank 0; other ranks only take part in gathering tensors."""

    def stage(self, version: int, tensors: Iterable[tuple[str, torch.Tensor]]) -> WeightHandle:
        """Make full tensors, named as in the Hugging Face checkpoint, readable as `version`. Frozen ones may be left
        out: the replicas keep those."""
        ...

    def send(self, handle: WeightHandle) -> None:
        """Take part in the transfer while the replicas load; blocks until they have everything."""
        ...

    def release(self, handle: WeightHandle) -> None:
        """Forget a staged version that every replica has loaded. Forgetting twice is no error."""
        ...


def shared_memory_root() -> Path:
    """Memory that looks like a folder, where the machine has it, else the temporary folder."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else Path(tempfile.gettempdir())


class SharedMemorySender:
    """Writes safetensors files of about 1 GiB; at most one version plus one file is in memory twice."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        """Args:
        folder: this run's own, below `shared_memory_root()`; what an earlier process left in it is removed.
        dtype: what the engines compute in; float tensors are cast to it.
        """
        self._folder = folder
        self._dtype = dtype
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)

    def stage(self, version: int, tensors: Iterable[tuple[str, torch.Tensor]]) -> WeightHandle:
        final = self._folder / f"version-{version:06d}"
        partial = final.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        shard: dict[str, torch.Tensor] = {}
        size = count = 0
        for name, tensor in tensors:
            shard[name] = tensor.detach().to("cpu", self._dtype, copy=True).contiguous()
            size += shard[name].nbytes
            if size >= SHARD_BYTES:
                self._write(shard, partial, count, version)
                shard, size, count = {}, 0, count + 1
        if shard:
            self._write(shard, partial, count, version)
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        return WeightHandle(version, "shm", str(final))

    @staticmethod
    def _write(shard: dict[str, torch.Tensor], folder: Path, number: int, version: int) -> None:
        save_file(shard, folder / f"{number:05d}.safetensors", metadata={VERSION_KEY: str(version)})

    def send(self, handle: WeightHandle) -> None:
        """Nothing: the replicas read the files."""

    def release(self, handle: WeightHandle) -> None:
        shutil.rmtree(handle.location, ignore_errors=True)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
