from __future__ import annotations

import asyncio

import pytest

from builders_rollout import ScriptedEngine
from videorl.errors import DeadlineExceeded, EngineDied
from videorl.rollout.pool import EnginePool


async def test_the_least_busy_engine_takes_the_next_group() -> None:
    pool = EnginePool([ScriptedEngine("a"), ScriptedEngine("b")], patience=1)
    async with pool.lease() as first, pool.lease() as second:
        assert {first.name, second.name} == {"a", "b"}
        async with pool.lease() as third:
            held = [first.name, second.name, third.name]
            async with pool.lease() as fourth:
                assert sorted([*held, fourth.name]) == ["a", "a", "b", "b"]


async def test_an_engine_that_died_gets_nothing_more_and_is_reported_once() -> None:
    told: list[str] = []
    pool = EnginePool([ScriptedEngine("a"), ScriptedEngine("b")], patience=1, on_death=lambda e: told.append(e.name))
    async with pool.lease() as held:
        with pytest.raises(EngineDied):
            async with pool.lease() as dying:
                raise EngineDied("gone")
        pool.remove(dying)
        assert told == [dying.name]
        assert [engine.name for engine in pool.living] == [held.name]


async def test_other_faults_inside_a_lease_leave_the_engine_in_the_pool() -> None:
    pool = EnginePool([ScriptedEngine("a")], patience=1)
    with pytest.raises(ValueError, match="mine"):
        async with pool.lease():
            raise ValueError("mine")
    async with pool.lease() as engine:
        assert engine.name == "a"


async def test_a_lease_waits_for_a_replacement() -> None:
    pool = EnginePool([ScriptedEngine("a")], patience=30)
    pool.remove(pool.living[0])

    async def take() -> str:
        async with pool.lease() as engine:
            return engine.name

    waiting = asyncio.ensure_future(take())
    await asyncio.sleep(0)
    assert not waiting.done()
    pool.add(ScriptedEngine("a"))
    assert await waiting == "a"


async def test_a_lease_does_not_wait_for_ever() -> None:
    with pytest.raises(DeadlineExceeded, match="no rollout replica was alive"):
        async with EnginePool([], patience=0.01).lease():
            pass


async def test_the_old_engines_late_death_does_not_remove_its_replacement() -> None:
    old, new = ScriptedEngine("a"), ScriptedEngine("a")
    pool = EnginePool([old], patience=1)
    pool.remove(old)
    pool.add(new)
    pool.remove(old)
    assert pool.living == (new,)
