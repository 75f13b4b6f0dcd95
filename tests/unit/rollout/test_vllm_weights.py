"""NCCL itself needs GPUs; what both sides must agree on does not."""

from __future__ import annotations

import torch
from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferUpdateInfo
from vllm.distributed.weight_transfer.packed_tensor import pack_tensors, unpack_tensor

from videorl.rollout.vllm_weights import NcclReceiver, NcclSender


def masters() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator) for name, shape in [("a", (3, 4)), ("b", (5,)), ("c", (2, 2))]
    }


def test_the_handle_says_what_is_sent_in_which_order_and_masters_are_cast() -> None:
    sender = NcclSender("127.0.0.1", workers=16)
    handle = sender.stage(2, masters().items())
    assert (handle.version, handle.transport, handle.names) == (2, "nccl", ("a", "b", "c"))
    assert handle.dtypes == ("bfloat16",) * 3
    assert handle.shapes == ((3, 4), (5,), (2, 2))
    address, port, world = handle.location.split(":")
    assert (address, int(world)) == ("127.0.0.1", 17)
    assert int(port) > 0


def test_what_is_packed_by_the_sender_unpacks_by_the_handle_alone() -> None:
    sender = NcclSender("127.0.0.1", workers=1)
    handle = sender.stage(1, masters().items())
    chunk = pack_tensors(iter(sender.staged(handle)), lambda named: named[1], 1 << 20)
    assert chunk is not None
    sizes = [2 * torch.Size(shape).numel() for shape in handle.shapes]
    dtypes = [getattr(torch, name) for name in handle.dtypes]
    received = unpack_tensor(chunk.packed_tensor, list(handle.names), [list(s) for s in handle.shapes], dtypes, sizes)
    assert {name: tensor.tolist() for name, tensor in received} == {
        name: tensor.bfloat16().tolist() for name, tensor in masters().items()
    }


def test_versions_share_a_group_until_a_replica_is_replaced() -> None:
    sender = NcclSender("127.0.0.1", workers=2)
    first, second = (sender.stage(version, masters().items()).location for version in (1, 2))
    sender.regroup(workers=4)
    third = sender.stage(3, masters().items()).location
    assert first == second
    assert third.endswith(":5")


async def test_a_replica_joins_each_group_once_and_hands_over_the_handle_as_it_is() -> None:
    llm = RecordedEngine()
    receiver = NcclReceiver(llm, first_rank=3)  # type: ignore[arg-type]
    sender = NcclSender("127.0.0.1", workers=4)
    for version in (1, 2):
        await receiver.receive(sender.stage(version, masters().items()))
    sender.regroup(workers=4)
    await receiver.receive(sender.stage(3, masters().items()))
    each = ["start_weight_update", "update_weights", "finish_weight_update", "collective_rpc"]
    join, leave = "init_weight_transfer_engine", "shutdown_weight_transfer_engine"
    assert [name for name, _ in llm.calls] == [join, *each, *each, leave, join, *each]
    info = llm.calls[0][1][0].init_info
    assert (info["rank_offset"], info["world_size"], info["packed"]) == (3, 5, True)
    update = NCCLWeightTransferUpdateInfo(**llm.calls[2][1][0].update_info)
    assert (list(update.names), update.shapes) == (["a", "b", "c"], [[3, 4], [5], [2, 2]])


class RecordedEngine:
    """Takes down what is asked of AsyncLLM."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple]] = []

    def __getattr__(self, name: str):
        async def call(*args) -> None:
            self.calls.append((name, args))

        return call
