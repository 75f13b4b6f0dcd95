"""New weights into a running vLLM engine: the worker's side of both transports, and the trainer's side of NCCL.

    shm    every worker maps the staged safetensors files and reloads layer by layer
    nccl   trainer rank 0 broadcasts packed bf16 tensors; vLLM's weight-transfer engine in each worker receives them

Invariant: names and shapes are those of the Hugging Face checkpoint; parameters that are not sent keep their values.
The order of a whole publication (pause, load, drop caches, label, resume) stands in `vllm_engine.py`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from vllm.distributed.weight_transfer.base import WeightTransferInitRequest, WeightTransferUpdateRequest
from vllm.distributed.weight_transfer.nccl_common import (
    NCCLWeightTransferInitInfo,
    stateless_init_process_group,
    worker_init_payload,
)
from vllm.distributed.weight_transfer.packed_tensor import packed_nccl_broadcast_producer
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

from videorl.rollout.weights import VERSION_KEY
from videorl.types import WeightHandle

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM


class WeightReceiver:
    """Methods that vLLM adds to its worker class (`worker_extension_cls`); called through `collective_rpc`."""

    if TYPE_CHECKING:  # what the worker class itself has
        model_runner: Any

        def reload_weights(self, weights_iterator: Iterator[tuple[str, torch.Tensor]]) -> None: ...

    def load_staged_weights(self, location: str, version: int) -> int:
        """Load every tensor of a staged folder; returns how many there were.

        Raises:
            ValueError: the folder holds nothing, or another version.
        """
        files = sorted(Path(location).glob("*.safetensors"))
        if not files:
            raise ValueError(f"{location}: no staged weights")
        names: list[str] = []

        def tensors() -> Iterator[tuple[str, torch.Tensor]]:
            for file in files:
                with safe_open(file, framework="pt") as staged:
                    found = staged.metadata()[VERSION_KEY]
                    if found != str(version):
                        raise ValueError(f"{file}: holds version {found}, expected {version}")
                    for name in staged.keys():  # noqa: SIM118  # safe_open is no mapping
                        names.append(name)
                        yield name, staged.get_tensor(name)

        self.reload_weights(weights_iterator=tensors())
        self.repack_heads()
        return len(names)

    def repack_heads(self) -> None:
        """A head that is tied to the embedding keeps a packed copy of the OLD weights on CPU: pack it again."""
        for module in self.model_runner.get_model().modules():
            if isinstance(module, ParallelLMHead):
                module.quant_method.process_weights_after_loading(module)


# ── NCCL ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class NcclReceiver:
    """One replica's membership in the trainer's group; joins when a handle names a group that it is not in."""

    def __init__(self, llm: AsyncLLM, first_rank: int) -> None:
        self._llm = llm
        self._first_rank = first_rank  # of this replica's workers; the trainer is rank 0
        self._group = ""

    async def receive(self, handle: WeightHandle) -> None:
        """Receive and load every tensor of the handle, while the trainer sends."""
        if handle.location != self._group:
            await self._join(handle.location)
        await self._llm.start_weight_update()
        update = {
            "names": list(handle.names),
            "dtype_names": list(handle.dtypes),
            "shapes": [list(s) for s in handle.shapes],
        }
        await self._llm.update_weights(WeightTransferUpdateRequest(update_info=update))
        await self._llm.finish_weight_update()
        await self._llm.collective_rpc("repack_heads")

    async def _join(self, group: str) -> None:
        if self._group:
            await self._llm.shutdown_weight_transfer_engine()
        address, port, world_size = group.split(":")
        info = NCCLWeightTransferInitInfo(
            master_address=address,
            master_port=int(port),
            rank_offset=self._first_rank,
            world_size=int(world_size),
            packed=True,
        )
        await self._llm.init_weight_transfer_engine(WeightTransferInitRequest(init_info=worker_init_payload(info)))
        self._group = group


class NcclSender:
    """Broadcasts from trainer rank 0 to every worker of every replica (videorl.rollout.weights.WeightSender).

    `stage` keeps the tensors (in bf16, on this rank's device) until `release`; `send` opens the group at its first
    use, in which the replicas join it at the same time. After a replica was replaced call `regroup`.
    """

    def __init__(self, address: str, workers: int) -> None:
        """Args:
        address: under which the replicas reach this process.
        workers: of all replicas together (replicas x tensor_parallel).
        """
        self._address = address
        self._workers = workers
        self._communicator: Any = None  # vLLM's PyNcclCommunicator
        self._port = 0
        self._staged: dict[int, list[tuple[str, torch.Tensor]]] = {}

    def regroup(self, workers: int) -> None:
        """Leave the group; the next version that is staged names a new one of `workers` workers."""
        if self._communicator is not None:
            self._communicator.destroy()
        self._communicator, self._port, self._workers = None, 0, workers

    def stage(self, version: int, tensors: Iterable[tuple[str, torch.Tensor]]) -> WeightHandle:
        if not self._port:
            self._port = free_port(self._address)
        staged = [(name, tensor.detach().to(torch.bfloat16).contiguous()) for name, tensor in tensors]
        self._staged[version] = staged
        return WeightHandle(
            version,
            "nccl",
            f"{self._address}:{self._port}:{1 + self._workers}",
            names=tuple(name for name, _ in staged),
            dtypes=("bfloat16",) * len(staged),
            shapes=tuple(tuple(tensor.shape) for _, tensor in staged),
        )

    def staged(self, handle: WeightHandle) -> list[tuple[str, torch.Tensor]]:
        """What `send` broadcasts, in its order."""
        return self._staged[handle.version]

    def send(self, handle: WeightHandle) -> None:
        if self._communicator is None:
            self._communicator = stateless_init_process_group(
                self._address, self._port, 0, 1 + self._workers, torch.accelerator.current_device_index()
            )
        packed_nccl_broadcast_producer(
            iterator=iter(self.staged(handle)),
            group=self._communicator,
            src=0,
            post_iter_func=lambda named: named[1],
        )

    def release(self, handle: WeightHandle) -> None:
        self._staged.pop(handle.version, None)


def free_port(address: str) -> int:
    """A TCP port that nobody listens on at `address` now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]
