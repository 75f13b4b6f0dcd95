from __future__ import annotations

import asyncio

import pytest

from builders_orchestration import group, run_jumping
from videorl.errors import DeadlineExceeded
from videorl.orchestration.buffer import Buffer
from videorl.types import Group


def flown(buffer: Buffer, *groups: Group) -> None:
    for g in groups:
        buffer.issue(g.issued)
        buffer.sample(g.issued, g.issued_version)
        buffer.finish(g)


async def test_the_oldest_tokens_go_first_then_the_order_of_issue() -> None:
    buffer = Buffer()
    late, old, first, next_epoch = group(2), group(9, versions=(0, 3)), group(1, versions=(1, 1)), group(0, epoch=1)
    flown(buffer, next_epoch, first, late, old)
    assert [g.issued.key for g in buffer.spend(3)] == ["0:toy/2", "0:toy/9", "1:toy/0"]
    assert [g.issued.key for g in buffer.spend(3)] == ["0:toy/1"]


async def test_a_place_is_taken_from_issue_to_drop_or_publication() -> None:
    buffer = Buffer()
    a, b = group(0), group(1)
    buffer.issue(a.issued)
    buffer.issue(b.issued)
    assert (buffer.outstanding, buffer.in_flight, buffer.sampling) == (2, 2, 0)
    buffer.sample(a.issued, 0)
    buffer.drop(b.issued)
    assert (buffer.outstanding, buffer.in_flight, buffer.sampling) == (1, 1, 1)
    buffer.finish(a)
    assert (buffer.outstanding, buffer.untrained, buffer.finished) == (1, 1, 1)
    buffer.spend(1)
    assert (buffer.outstanding, buffer.untrained, buffer.spent) == (1, 0, 1)
    buffer.publish()
    assert buffer.outstanding == 0
    assert (buffer.peak_lap(), buffer.peak_lap()) == (2, 0)


async def test_only_what_reached_an_engine_can_be_due() -> None:
    buffer = Buffer()
    flown(buffer, group(0))
    slow = group(1)
    buffer.issue(slow.issued)
    assert buffer.in_time_without(1, version=2, slots=0, groups_per_step=1, max_lag=2)
    buffer.sample(slow.issued, version=0)
    assert not buffer.in_time_without(1, version=2, slots=0, groups_per_step=1, max_lag=2)
    buffer.sample(slow.issued, version=2)  # handed to another engine
    assert buffer.in_time_without(1, version=2, slots=0, groups_per_step=1, max_lag=2)


def test_every_waiter_is_woken_by_a_change() -> None:
    async def scene() -> list[str]:
        buffer, woken = Buffer(), []

        async def waiter(name: str, wanted: int) -> None:
            await buffer.until(lambda: buffer.finished >= wanted, stalled=5.0)
            woken.append(name)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(waiter("two", 2))
            tasks.create_task(waiter("one", 1))
            for number in range(2):
                await asyncio.sleep(1.0)
                flown(buffer, group(number))
        return woken

    assert run_jumping(scene()) == ["one", "two"]


def test_waiting_ends_when_nothing_moves_any_more() -> None:
    async def scene() -> float:
        buffer, began = Buffer(), asyncio.get_running_loop().time()
        mover = asyncio.create_task(_move_once(buffer, after=4.0))
        with pytest.raises(DeadlineExceeded, match="no group has moved for 5 s: 1 in preparation, 0 in the engines"):
            await buffer.until(lambda: False, stalled=5.0)
        await mover
        return asyncio.get_running_loop().time() - began

    assert run_jumping(scene()) == pytest.approx(9.0, abs=1e-6)


def test_idle_time_is_that_without_any_request_in_an_engine() -> None:
    async def scene() -> tuple[float, float]:
        buffer, a, b = Buffer(), group(0), group(1)
        await asyncio.sleep(1.0)
        for g in (a, b):
            buffer.issue(g.issued)
            buffer.sample(g.issued, 0)
            await asyncio.sleep(1.0)
        buffer.finish(a)
        await asyncio.sleep(1.0)
        buffer.finish(b)
        await asyncio.sleep(0.5)
        first = buffer.idle_lap()
        await asyncio.sleep(0.25)
        return first, buffer.idle_lap()

    assert run_jumping(scene()) == pytest.approx((1.5, 0.25), abs=1e-6)


async def _move_once(buffer: Buffer, after: float) -> None:
    await asyncio.sleep(after)
    buffer.issue(group(0).issued)


async def test_a_change_is_not_lost_to_a_waiter_who_looks_again_before_the_other_waits() -> None:
    """With a deadline the wait begins one turn of the loop later than the look; another waiter may look in between."""
    buffer = Buffer()
    buffer.issue(group(0).issued)
    never = asyncio.create_task(buffer.until(lambda: False, stalled=None))
    await asyncio.sleep(0)
    buffer.wake()  # `never` will look again, in the turn in which `trained` begins to wait and the group finishes
    trained = asyncio.create_task(buffer.until(lambda: buffer.finished == 1, stalled=5.0))
    finish = asyncio.create_task(_finish(buffer))
    again = asyncio.create_task(buffer.until(lambda: False, stalled=None))
    await asyncio.wait_for(trained, 1.0)
    await finish
    for task in (never, again):
        task.cancel()


async def _finish(buffer: Buffer) -> None:
    buffer.finish(group(0))


@pytest.mark.parametrize("turns", range(4))
async def test_a_cancellation_that_meets_a_change_is_not_forgotten(turns: int) -> None:
    buffer = Buffer()
    waiter = asyncio.create_task(buffer.until(lambda: False, stalled=60.0))
    await asyncio.sleep(0.01)
    buffer.wake()
    for _ in range(turns):
        await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait({waiter}, timeout=1.0)
    assert waiter.cancelled()
