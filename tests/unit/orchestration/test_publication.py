from __future__ import annotations

import asyncio

import pytest

from builders_orchestration import ScriptedEngine, ScriptedTrainer, Watch, run_jumping
from videorl.errors import DeadlineExceeded, EngineDied, VideorlError
from videorl.orchestration.publication import publish
from videorl.types import WeightHandle


class Told(ScriptedTrainer):
    """Notes the order of calls."""

    def __init__(self) -> None:
        super().__init__(Watch())
        self.calls: list[str] = []

    async def stage_weights(self, version: int) -> WeightHandle:
        self.calls.append(f"stage {version}")
        return await super().stage_weights(version)

    async def send_weights(self, handle: WeightHandle) -> None:
        self.calls.append("send")
        await asyncio.sleep(0.5)
        self.calls.append("sent")

    async def release_weights(self, handle: WeightHandle) -> None:
        self.calls.append("release")


def test_replicas_load_at_once_while_the_trainer_sends() -> None:
    async def scene() -> tuple[list[str], list[int], float]:
        trainer, engines = Told(), [ScriptedEngine("a", 3.0), ScriptedEngine("b", 4.0)]
        await publish(trainer, engines, 7, deadline=10.0)
        return trainer.calls, [e.weights for e in engines], asyncio.get_running_loop().time()

    calls, versions, seconds = run_jumping(scene())
    assert calls == ["stage 7", "send", "sent", "release"]
    assert versions == [7, 7]
    assert seconds == pytest.approx(4.0, abs=1e-6)


def test_a_replica_that_keeps_its_old_weights_is_named() -> None:
    class Stubborn(ScriptedEngine):
        async def load_weights(self, handle: WeightHandle) -> None: ...

    async def scene() -> None:
        await publish(Told(), [ScriptedEngine("a"), Stubborn("replica b")], 7, deadline=10.0)

    with pytest.raises(VideorlError, match="replica b: has weights of version 0 after version 7 was published"):
        run_jumping(scene())


def test_a_replica_that_does_not_answer_is_named() -> None:
    async def scene() -> None:
        await publish(Told(), [ScriptedEngine("a"), ScriptedEngine("replica b", 1e9)], 7, deadline=10.0)

    with pytest.raises(DeadlineExceeded, match="replica b: loading version 7 did not answer within 10 s"):
        run_jumping(scene())


def test_a_dead_replica_is_raised_as_itself() -> None:
    class Dead(ScriptedEngine):
        async def load_weights(self, handle: WeightHandle) -> None:
            raise EngineDied("replica b: gone")

    async def scene() -> None:
        await publish(Told(), [ScriptedEngine("a", 5.0), Dead("replica b")], 7, deadline=10.0)

    with pytest.raises(EngineDied, match="replica b: gone"):
        run_jumping(scene())
