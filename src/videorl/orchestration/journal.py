"""What the run writes down: each happening is told once, and becomes an event, a metric or both.

Times are taken from the event loop's clock and written as seconds since 1970, so that the spans in events.jsonl can be
compared with each other: a `group` whose span overlaps that of an `update` was sampled while the trainer computed.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from videorl.algo.staleness import lag
from videorl.monitor.monitor import Monitor
from videorl.orchestration.calls import one_line
from videorl.orchestration.step_meter import StepMeter
from videorl.types import Drop, DroppedQuestion, Group, UpdateBatch, UpdateReport


@dataclass(slots=True, frozen=True)
class Span:
    """From when to when, on the event loop's clock, and how many groups were in the engines at both ends."""

    begins: float
    ends: float
    sampling_before: int = 0
    sampling_after: int = 0

    @property
    def seconds(self) -> float:
        return self.ends - self.begins


class Journal:
    """Tells the monitor. `step` is always the fit step under way, from 1."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._clock = asyncio.get_running_loop().time
        self._wall = time.time() - self._clock()
        self._meter = StepMeter(self._clock())

    def run_started(self, resumed_from: int | None, version: int, rewound: int) -> None:
        self._meter = StepMeter(self._clock())
        self._monitor.event("run_started", resumed_from=resumed_from, version=version, rewound=rewound)

    def run_ended(
        self, how: Literal["finished", "stopped", "failed"], completed: int, fault: BaseException | None, released: int
    ) -> None:
        """After `completed` fit steps, for `fault` if any; `released` questions were in flight."""
        self._monitor.event(
            f"run_{how}",
            completed=completed,
            released=released,
            reason=one_line(fault) if fault else None,
            traceback="".join(traceback.format_exception(fault)) if how == "failed" else None,
        )

    def group_finished(self, group: Group, span: Span, step: int) -> None:
        self._meter.finished(group)
        for response in group.responses:
            if response.drop:
                self._dropped("response_dropped", group.issued.key, response.drop, step)
        versions = [int(v) for r in group.responses for v in (*r.rollout.versions[:1], *r.rollout.versions[-1:])]
        self._monitor.event(
            "group",
            step,
            question=group.issued.key,
            **self._times(span),
            oldest_version=group.oldest_version,
            newest_version=max(versions, default=group.issued_version),
            tokens=sum(len(r.rollout.token_ids) for r in group.responses),
        )

    def question_dropped(self, dropped: DroppedQuestion, step: int) -> None:
        self._meter.question_dropped(dropped.drop.reason)
        self._dropped("question_dropped", dropped.issued.key, dropped.drop, step)
        if dropped.group:
            self._monitor.groups(step, None, [dropped.group])

    def waited(self, seconds: float) -> None:
        """The trainer had nothing to do."""
        self._meter.waited += seconds

    def updated(self, batch: UpdateBatch, groups: Sequence[Group], report: UpdateReport, span: Span) -> None:
        lags = [lag(batch.version, group.oldest_version) for group in groups]
        self._meter.trained(groups, lags, len(groups) - len(batch.groups), report, span.seconds)
        self._monitor.groups(batch.step, batch.version, groups)
        self._monitor.event(
            "update",
            batch.step,
            index=batch.index,
            version=batch.version,
            **self._times(span),
            sampling_before=span.sampling_before,
            sampling_after=span.sampling_after,
            questions=[group.issued.key for group in groups],
            lag_max=max(lags),
            tokens=batch.denominator,
            skipped=report.skipped,
        )

    def published(self, version: int, span: Span, step: int) -> None:
        self._meter.publishing += span.seconds
        self._monitor.event(
            "publication",
            step,
            version=version,
            **self._times(span),
            sampling_before=span.sampling_before,
            sampling_after=span.sampling_after,
        )

    def step_ended(self, step: int, version: int, idle_rollout: float, outstanding: int) -> None:
        """`idle_rollout` seconds without a request in any engine, at most `outstanding` groups at once."""
        now = self._clock()
        record = self._meter.record(step, version, now, idle_rollout, outstanding)
        self._monitor.event("step", step, version=version, **self._times(Span(self._meter.began, now)))
        self._meter = StepMeter(now)
        self._monitor.step(record)

    def checkpointed(self, folder: Path, span: Span, step: int) -> None:
        self._meter.checkpointing += span.seconds
        self._monitor.event("checkpoint", step, path=str(folder), **self._times(span))

    def _dropped(self, kind: str, question: str, drop: Drop, step: int) -> None:
        self._monitor.event(kind, step, question=question, reason=drop.reason.value, detail=drop.detail)

    def _times(self, span: Span) -> dict[str, float]:
        return {"starts": self._wall + span.begins, "ends": self._wall + span.ends, "seconds": span.seconds}
