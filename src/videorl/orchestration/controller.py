"""The run: questions in, a trained model out, sampling and training at the same time.

    ledger ──► _issue ──► _roll (one task a question) ──► buffer ──► _train ──► trainer
                 ▲             rollouter, engines           │           │
                 │                                          │           ▼
                 └── a place is free ◄── dropped ◄──────────┘     publication ──► engines
                 └── a place is free ◄── published ◄────────────────────┘

    loop      waits for                                        woken by
    _issue    a free place: fewer than ⌊(1 + s)·G⌋ are         _train (published), _roll (dropped)
              outstanding, and max_steps leaves room
    _roll     its own request                                  the rollouter
    _train    enough finished groups for the next update,      _roll (finished, dropped), _issue (data used up)
              none of the others going to be too old
    stop      SIGTERM, SIGINT                                  the signal

Invariants. At most config.max_outstanding groups are outstanding (buffer.py counts them). A group is trained at most
max_lag versions after its oldest token (algo/staleness.py has the rule; _train waits where it asks for it). Each
question is trained once or dropped with a reason (ledger.py). `version` rises only in _publish.

With staleness 0 a fit step begins when all its G groups are finished; their places stay taken until it is published,
so nothing is sampled while the trainer updates. Otherwise each update starts as soon as its groups are there.

The first fault of any loop ends them all; what was in flight goes back to pending.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from videorl.algo.staleness import lag, may_issue
from videorl.config.schema import Config
from videorl.errors import RunStopped, VideorlError
from videorl.monitor.monitor import Monitor
from videorl.monitor.recorder import Advantages
from videorl.orchestration.batch import update_batch
from videorl.orchestration.buffer import Buffer
from videorl.orchestration.calls import answered, first_fault, one_line
from videorl.orchestration.checkpoints import Checkpoint, RunPoint
from videorl.orchestration.journal import Journal, Span
from videorl.orchestration.ledger import Ledger
from videorl.orchestration.media_health import MediaHealth
from videorl.orchestration.publication import publish
from videorl.orchestration.run_dir import RunDir
from videorl.orchestration.run_state import RunState
from videorl.orchestration.stopping import StopSignal
from videorl.orchestration.trainer import Trainer
from videorl.rollout.engine import Engine
from videorl.types import DroppedQuestion, Group, IssuedQuestion

_HEARTBEAT_SECONDS = 5.0


class Rolls(Protocol):
    """What turns an issued question into a scored group, or says why not (rollout/rollouter.py)."""

    async def run(self, issued: IssuedQuestion, version: Callable[[], int]) -> Group | DroppedQuestion:
        """`version()` is called when the request is handed to an engine (again, where an engine died with it)."""
        ...


class Controller:
    """Owns the order of things. What does them is handed in, and closed by whoever made it."""

    def __init__(
        self,
        *,
        config: Config,
        run_dir: RunDir,
        state: RunState,
        stop: StopSignal,
        ledger: Ledger,
        rolls: Rolls,
        engines: Sequence[Engine],
        trainer: Trainer,
        advantages: Advantages,
        monitor: Monitor,
    ) -> None:
        self._config = config
        self._run_dir = run_dir
        self._state = state
        self._stop = stop
        self._ledger = ledger
        self._rolls = rolls
        self._engines = engines
        self._trainer = trainer
        self._advantages = advantages
        self._journal = Journal(monitor)
        self._buffer = Buffer()
        self._health = MediaHealth(config.data.max_bad_share)
        self._clock = asyncio.get_running_loop().time
        self._step = 0  # completed fit steps
        self._version = 0
        self._saved = 0  # the step of the last checkpoint
        self._used_up = False  # every question has been issued

    async def run(self, resume: Checkpoint | None) -> None:
        """Train until the data or max_steps is used up, going on from `resume`.

        Raises:
            RunStopped: a signal asked for it.
            VideorlError: a fault, in one line.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                watches = [tasks.create_task(self._stop.stopped()), tasks.create_task(self._heartbeat())]
                await self._begin(resume)
                watches.append(tasks.create_task(self._issue(tasks)))
                await self._train()
                for watch in watches:
                    watch.cancel()
        except BaseExceptionGroup as faults:
            fault = first_fault(faults)
            self._end(fault)
            raise fault from fault.__cause__
        except asyncio.CancelledError as fault:
            self._end(fault)
            raise
        self._end(None)

    # ── the loops ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _issue(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            # No deadline of its own: what frees a place is a publication, and each call of _train has one.
            await self._buffer.until(self._may_issue, stalled=None)
            issued = self._ledger.issue()
            if issued is None:
                self._used_up = True
                self._buffer.wake()
                return
            self._buffer.issue(issued)
            tasks.create_task(self._roll(issued))

    async def _roll(self, issued: IssuedQuestion) -> None:
        begins = self._clock()

        def hand_over() -> int:
            nonlocal begins
            begins = self._clock()
            self._buffer.sample(issued, self._version)
            return self._version

        try:
            outcome = await self._rolls.run(issued, hand_over)
        except VideorlError:
            raise
        except Exception as error:
            raise VideorlError(f"question {issued.key}: the rollout failed: {one_line(error)}") from error
        if isinstance(outcome, DroppedQuestion):
            self._drop(outcome)
        else:
            self._finish(outcome, Span(begins, self._clock()))

    async def _train(self) -> None:
        limit = self._config.run.max_steps
        while limit is None or self._step < limit:
            if not await self._fit_step():
                break
        if self._step == 0:
            dropped = self._ledger.counts().dropped
            raise VideorlError(
                f"nothing was trained: {dropped} questions were asked and dropped; events.jsonl says why"
            )
        if self._saved < self._step:
            await self._checkpoint()

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            self._state.beat()

    # ── a fit step ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _fit_step(self) -> bool:
        """updates_per_step updates, or what is left of the data, then a publication. False: nothing was left."""
        for index in range(self._config.trainer.updates_per_step):
            groups = await self._next_groups(index)
            if not groups:
                break
            await self._update(index, groups)
        if not self._buffer.spent:
            return False
        await self._publish()
        self._journal.step_ended(self._step, self._version, self._buffer.idle_lap(), self._buffer.peak_lap())
        self._state.running(self._step, self._version)
        if self._step % self._config.checkpoint.every == 0:
            await self._checkpoint()
        return True

    async def _next_groups(self, index: int) -> list[Group]:
        """The oldest finished groups for update `index`, once they may be trained; none at the end of the data."""
        size, whole = self._config.trainer.prompts_per_update, self._config.groups_per_step
        max_lag, synchronous = self._config.async_.max_lag, self._config.async_.staleness == 0
        wanted = whole if synchronous and index == 0 else size
        slots_after = whole - (index + 1) * size

        def ready() -> bool:
            if self._used_up and not self._buffer.in_flight:
                return True
            return self._buffer.finished >= wanted and self._buffer.in_time_without(
                size, self._version, slots_after, whole, max_lag
            )

        began = self._clock()
        await self._buffer.until(ready, stalled=self._stall_seconds)
        self._journal.waited(self._clock() - began)
        groups = self._buffer.spend(size)
        for group in groups:
            if lag(self._version, group.oldest_version) > max_lag:
                raise VideorlError(
                    f"question {group.issued.key}: its oldest token has version {group.oldest_version}, too old to "
                    f"train at version {self._version} under async.max_lag = {max_lag}: an engine kept old weights"
                )
        return groups

    async def _update(self, index: int, groups: Sequence[Group]) -> None:
        batch = update_batch(self._step + 1, index, self._version, groups, self._advantages)
        begins, sampling = self._clock(), self._buffer.sampling
        report = await answered(
            f"trainer: update {index + 1} of fit step {batch.step}",
            self._trainer.update(batch),
            self._config.trainer.update_timeout,
        )
        self._ledger.trained([group.issued for group in groups], batch.step)
        self._journal.updated(batch, groups, report, Span(begins, self._clock(), sampling, self._buffer.sampling))

    async def _publish(self) -> None:
        """The only place where version and step rise."""
        begins, sampling, version = self._clock(), self._buffer.sampling, self._version + 1
        await publish(self._trainer, self._engines, version, self._config.rollout.start_timeout)
        span = Span(begins, self._clock(), sampling, self._buffer.sampling)
        self._step, self._version = self._step + 1, version
        self._buffer.publish()
        self._journal.published(version, span, self._step)

    async def _checkpoint(self) -> None:
        """Write one after the last completed step; sampling goes on meanwhile."""
        begins, sampling, checkpoints = self._clock(), self._buffer.sampling, self._run_dir.checkpoints
        folder, deadline = checkpoints.folder(self._step), self._config.trainer.update_timeout
        await answered(f"{folder}: making it", asyncio.to_thread(checkpoints.begin, self._step), deadline)
        await answered(f"trainer: saving {folder}", self._trainer.save(folder), deadline)
        settled = self._ledger.settled(self._step)
        point = RunPoint(self._step, self._version, settled.trained, settled.dropped)
        await answered(f"{folder}: completing it", asyncio.to_thread(self._complete, point), deadline)
        self._saved = self._step
        self._journal.checkpointed(folder, Span(begins, self._clock(), sampling, self._buffer.sampling), self._step)

    def _complete(self, point: RunPoint) -> None:
        self._ledger.to_disk()
        self._run_dir.checkpoints.commit(point)
        if self._config.checkpoint.keep is not None:
            self._run_dir.checkpoints.prune(self._config.checkpoint.keep, self._run_dir.keeper())

    # ── what comes back ─────────────────────────────────────────────────────────────────────────────────────────

    def _finish(self, group: Group, span: Span) -> None:
        self._buffer.finish(group)
        self._journal.group_finished(group, span, self._step + 1)
        self._health.saw(None)

    def _drop(self, dropped: DroppedQuestion) -> None:
        self._ledger.dropped(dropped.issued, dropped.drop, self._step + 1)
        self._buffer.drop(dropped.issued)
        self._journal.question_dropped(dropped, self._step + 1)
        self._health.saw(dropped.drop)

    # ── start, end and limits ───────────────────────────────────────────────────────────────────────────────────

    async def _begin(self, resume: Checkpoint | None) -> None:
        """Trainer, engines and ledger stand where the checkpoint left them."""
        rewound = self._ledger.rewind(resume.point.step if resume else 0)
        if resume:
            point = resume.point
            found = self._ledger.counts()
            if (found.trained, found.dropped) != (point.trained, point.dropped):
                raise VideorlError(
                    f"{self._run_dir.ledger}: has {found.trained} questions trained and {found.dropped} dropped by fit "
                    f"step {point.step}, but {resume.folder} was written with {point.trained} and {point.dropped}: "
                    f"restore the ledger or choose another run.dir"
                )
            self._step, self._version, self._saved = point.step, point.version, point.step
            deadline = self._config.trainer.update_timeout
            await answered(f"trainer: loading {resume.folder}", self._trainer.load(resume.folder), deadline)
            await publish(self._trainer, self._engines, self._version, self._config.rollout.start_timeout)
        self._buffer.idle_lap()  # the first step begins now
        self._journal.run_started(self._saved or None, self._version, rewound)
        self._state.running(self._step, self._version)

    def _end(self, fault: BaseException | None) -> None:
        """What was in flight goes back to pending, and events.jsonl says how the run ended."""
        stopped = isinstance(fault, (RunStopped, asyncio.CancelledError))
        how = "finished" if fault is None else "stopped" if stopped else "failed"
        try:
            released = self._ledger.release()
            self._journal.run_ended(how, self._step, fault, released)
        except (VideorlError, OSError) as error:
            if fault is None:
                raise
            fault.add_note(f"moreover {one_line(error)}")

    def _may_issue(self) -> bool:
        limit = self._config.run.max_steps
        steps_left = None if limit is None else limit - self._step
        trainable = None if steps_left is None else steps_left * self._config.groups_per_step - self._buffer.spent
        return may_issue(self._buffer.outstanding, self._config.max_outstanding, self._buffer.untrained, trainable)

    @property
    def _stall_seconds(self) -> float:
        """Within this a question in flight is finished, dropped or handed to another engine."""
        rollout = self._config.rollout
        return self._config.data.decode_timeout + rollout.request_timeout + rollout.start_timeout
