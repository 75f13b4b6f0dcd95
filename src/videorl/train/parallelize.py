"""FSDP2 from outside: the model says nothing of ranks, this file nothing of architectures.

    root ── embedding │ each vision block │ each text layer │ head          the units that are gathered as a whole

Masters are float32; gathered copies are in the compute dtype; gradients are summed in float32. Every rank reads only
its own rows of every weight.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from jaxtyping import Float
from safetensors import safe_open
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from videorl.errors import UserError
from videorl.model.policy import Policy


def shard(policy: Policy, device: torch.device, dtype: torch.dtype, recompute: bool) -> None:
    """Shard `policy` (on the meta device) over all ranks and give it storage, not yet values.

    Args:
        dtype: what is computed in; masters stay float32.
        recompute: activation checkpointing of every layer.
    """
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    precision = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    family, model = policy.family, policy.model
    if recompute:
        cast(Any, model).gradient_checkpointing_enable({"use_reentrant": False})
    for layer in family.layers(model):
        fully_shard(layer, mesh=mesh, mp_policy=precision)
    tied = policy.head.weight is family.embedding(model).weight
    if not tied:  # a shared weight belongs to both ends of the model: it stays in the root
        fully_shard(family.embedding(model), mesh=mesh, mp_policy=precision)
        fully_shard(policy.head, mesh=mesh, mp_policy=precision)
    fully_shard(policy, mesh=mesh, mp_policy=precision)
    for module in policy.modules():
        if isinstance(module, FSDPModule):
            # The loss already holds its denominator over all ranks, so gradients are summed, not averaged.
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(1.0)
    forbidden = policy.head.forbidden
    policy.to_empty(device=device)
    policy.head.forbidden.copy_(forbidden)
    family.restore_buffers(model)


def load_weights(model: nn.Module, folder: Path) -> None:
    """Read every parameter's own rows from the safetensors of a Hugging Face folder.

    Raises:
        UserError: a weight is missing or has another shape.
    """
    with ExitStack() as files, torch.no_grad():
        readers = {name: files.enter_context(safe_open(path, "pt")) for name, path in _weight_files(folder).items()}
        for name, parameter in model.named_parameters():
            if name not in readers:
                raise UserError(f"{folder}: weight {name} is missing")
            stored = readers[name].get_slice(name)
            if tuple(stored.get_shape()) != tuple(parameter.shape):
                raise UserError(
                    f"{folder}: weight {name} has shape {tuple(stored.get_shape())}, not {tuple(parameter.shape)}"
                )
            low, high = own_rows(parameter)
            local(parameter).copy_(stored[low:high])


def _weight_files(folder: Path) -> dict[str, Path]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        table = json.loads(index.read_text())["weight_map"]
        return {name: folder / Path(file).name for name, file in table.items()}
    single = folder / "model.safetensors"
    if not single.exists():
        raise UserError(f"{folder}: no model.safetensors in it")
    with safe_open(single, "pt") as reader:
        return dict.fromkeys(reader.keys(), single)


def local(parameter: Tensor) -> Tensor:
    """The rank's own part of a sharded tensor, sharing its storage."""
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter


def own_rows(parameter: Tensor) -> tuple[int, int]:
    """Which rows (of dimension 0) this rank holds: FSDP2 cuts it into ⌈rows / ranks⌉ a rank."""
    rows = parameter.shape[0] if parameter.ndim else 1
    if not isinstance(parameter, DTensor):
        return 0, rows
    each = -(-rows // parameter.device_mesh.size())
    low = min(parameter.device_mesh.get_local_rank() * each, rows)
    return low, min(low + each, rows)


def full_tensors(model: nn.Module, *, trained_only: bool = False) -> Iterator[tuple[str, Float[Tensor, "..."]]]:
    """Every parameter whole, one at a time, under its Hugging Face name. A collective: all ranks iterate to the end.

    A tied head is not repeated. `trained_only` skips frozen parameters.
    """
    for name, parameter in model.named_parameters():
        if trained_only and not parameter.requires_grad:
            continue
        tensor = parameter.detach()
        yield name, tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
