"""What a trainer needs to go on exactly: one safetensors file per rank, readable by any number of ranks.

    trainer/state.json                    update count, file count, the shapes of whole tensors
    trainer/rank-00000-of-00002.safetensors     rows of every parameter and of its AdamW moments, and the RNG state

Rank r of n wrote rows [r·⌈rows/n⌉, (r+1)·⌈rows/n⌉) of every tensor, so a reader finds any row by arithmetic.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from videorl.errors import VideorlError
from videorl.train.parallelize import local, own_rows

MOMENTS = ("exp_avg", "exp_avg_sq")


def save_trainer(folder: Path, model: nn.Module, adamw: torch.optim.AdamW) -> None:
    """Write this rank's file; rank 0 also writes state.json. All ranks must call it, into a shared folder."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    folder.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {"rng": torch.get_rng_state()}
    steps: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        tensors[f"model.{name}"] = _own(parameter.detach())
        state = adamw.state.get(parameter)
        if state:
            steps[name] = int(state["step"])
            for moment in MOMENTS:
                tensors[f"{moment}.{name}"] = _own(state[moment])
    save_file(tensors, _rank_file(folder, rank, ranks))
    if rank == 0:
        (folder / "state.json").write_text(json.dumps({"ranks": ranks, "steps": steps}))
    dist.barrier()


def load_trainer(folder: Path, model: nn.Module, adamw: torch.optim.AdamW) -> None:
    """Restore parameters, moments and step counts; the RNG state too where the number of ranks is the same.

    Raises:
        VideorlError: the files do not fit the model.
    """
    state = json.loads((folder / "state.json").read_text())
    ranks: int = state["ranks"]
    with ExitStack() as files, torch.no_grad():
        readers = [files.enter_context(safe_open(_rank_file(folder, r, ranks), "pt")) for r in range(ranks)]
        for name, parameter in model.named_parameters():
            _read_rows(readers, f"model.{name}", parameter, local(parameter.detach()))
            if name in state["steps"]:
                moments = {m: torch.zeros_like(parameter) for m in MOMENTS}
                for moment, tensor in moments.items():
                    _read_rows(readers, f"{moment}.{name}", parameter, local(tensor))
                adamw.state[parameter] = {"step": torch.tensor(float(state["steps"][name])), **moments}
        if ranks == dist.get_world_size():
            torch.set_rng_state(readers[dist.get_rank()].get_tensor("rng"))


def _read_rows(readers: list[Any], key: str, parameter: Tensor, into: Tensor) -> None:
    """Copy this rank's rows of a tensor that `len(readers)` ranks wrote."""
    rows = parameter.shape[0] if parameter.ndim else 1
    low, high = own_rows(parameter)
    each = -(-rows // len(readers))
    for r, reader in enumerate(readers):
        start, end = min(r * each, rows), min((r + 1) * each, rows)
        first, last = max(low, start), min(high, end)
        if first >= last:
            continue
        part = reader.get_slice(key)
        if tuple(part.get_shape()[1:]) != tuple(parameter.shape[1:]) or part.get_shape()[0] != end - start:
            raise VideorlError(f"checkpoint: {key} has shape {part.get_shape()}, which does not fit the model")
        into[first - low : last - low].copy_(part[first - start : last - start])


def _own(tensor: Tensor) -> Tensor:
    """This rank's part in memory of its own: FSDP's shards are views of one buffer, which safetensors refuses."""
    return local(tensor).to("cpu", copy=True).contiguous()


def _rank_file(folder: Path, rank: int, ranks: int) -> Path:
    return folder / f"rank-{rank:05d}-of-{ranks:05d}.safetensors"
