"""A weight publication: from the trainer's parameters to a version that every replica samples with.

    trainer   stage ──► send ─────────────────► release
                │        │ (NCCL; shm: nothing)    ▲
    replicas    └──► load_weights (all at once) ──► version() == version, each
                     pause → load → drop stale caches → resume

Invariant: when `publish` returns, every token sampled from then on is of `version` (or of a later one). Responses in
flight are kept and go on under the new weights; none is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from videorl.errors import VideorlError
from videorl.orchestration.calls import answered, together
from videorl.orchestration.trainer import Trainer
from videorl.rollout.engine import Engine


async def publish(trainer: Trainer, engines: Sequence[Engine], version: int, deadline: float) -> None:
    """Make the trainer's current weights version `version` of every replica.

    Raises:
        DeadlineExceeded: one of the calls took longer than `deadline` seconds.
        VideorlError: a call failed, or a replica says another version afterwards.
    """
    if not engines:
        return  # supervised training: nobody samples
    handle = await answered(f"trainer: staging version {version}", trainer.stage_weights(version), deadline)
    await together(
        answered(f"trainer: sending version {version}", trainer.send_weights(handle), deadline),
        *(answered(f"{e.name}: loading version {version}", e.load_weights(handle), deadline) for e in engines),
    )
    await together(*(_verify(engine, version, deadline) for engine in engines))
    await answered(f"trainer: releasing version {version}", trainer.release_weights(handle), deadline)


async def _verify(engine: Engine, version: int, deadline: float) -> None:
    found = await answered(f"{engine.name}: asked for its version", engine.version(), deadline)
    if found != version:
        raise VideorlError(f"{engine.name}: has weights of version {found} after version {version} was published")
