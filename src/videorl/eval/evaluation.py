"""One model on its benchmarks: predictions, report and samples in one folder.

OUT/predictions.jsonl                 plain
OUT/PROBE/predictions.jsonl           blind, shuffle-frames, permute-options, where asked for
OUT/report.json  OUT/report.md  OUT/samples_BENCHMARK.jsonl
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from videorl.errors import VideorlError
from videorl.eval.benchmarks import Benchmark
from videorl.eval.predictions import NOT_ATTEMPTED, Prediction, PredictionFile, evaluation_key
from videorl.eval.probes import PROBES
from videorl.eval.report import BenchmarkReport, Report, build_report, report_benchmark
from videorl.eval.report_file import write_report
from videorl.eval.runner import Preparer, Row, Runner, failure
from videorl.eval.samples import write_samples
from videorl.eval.settings import ROWS_IN_FLIGHT, EvalSettings
from videorl.rewards.reward import Reward
from videorl.rollout.engine import Engine

_PLAIN = ""  # the pass without a probe


@dataclass(slots=True, frozen=True)
class Evaluation:
    """What is asked of a model, and how. Everything but the model itself."""

    benchmarks: Sequence[Benchmark]
    settings: EvalSettings
    prepare: Preparer
    reward: Reward
    probes: Sequence[str] = ()

    @property
    def rows(self) -> int:
        return sum(len(b.questions) for b in self.benchmarks) * (1 + len(self.probes))

    def pending(self, weights: str, out: Path) -> int:
        """Rows that `out` does not answer yet: nothing has to be started for none."""
        count = 0
        for probe in self._passes:
            with self._open(probe, weights, out) as file:
                rows = [row for of_one in self._rows(probe).values() for row in of_one]
                count += sum(file.find(row.benchmark, row.question) is None for row in rows)
        return count

    async def run(
        self,
        model: str,
        weights: str,
        engines: Sequence[Engine],
        out: Path,
        progress: Callable[[Prediction], None] = lambda _: None,
    ) -> Report:
        """Ask what `out` does not answer yet, and write the report.

        Args:
            model: its name in the report.
            weights: `weights_digest` of its folder.

        Raises:
            VideorlError: every replica died; the report stands and is incomplete.
        """
        runner = Runner(engines, self.prepare, self.reward, self.settings.sampling, ROWS_IN_FLIGHT, progress)
        fault: VideorlError | None = None
        answered: dict[str, dict[str, list[Prediction]]] = {}
        for probe in self._passes:
            rows = self._rows(probe)
            with self._open(probe, weights, out) as file:
                try:
                    await runner.run([row for of_one in rows.values() for row in of_one], file)
                except VideorlError as error:
                    fault = error
                answered[probe] = {name: [_outcome(row, file) for row in of_one] for name, of_one in rows.items()}
                for unreadable in (row for b in self.benchmarks for row in _unreadable(b)):
                    file.append(unreadable)
            if fault:
                break
        report = self._report(model, weights, answered, finished=fault is None)
        write_report(report, out)
        for name, predictions in answered[_PLAIN].items():
            write_samples(out, name, predictions)
        if fault:
            raise fault
        return report

    @property
    def _passes(self) -> tuple[str, ...]:
        return (_PLAIN, *self.probes)

    def _rows(self, probe: str) -> dict[str, list[Row]]:
        change = PROBES[probe] if probe else lambda question: question
        return {b.name: [Row(b.name, change(question)) for question in b.questions] for b in self.benchmarks}

    def _open(self, probe: str, weights: str, out: Path) -> PredictionFile:
        return PredictionFile(out / probe / "predictions.jsonl", self._key(probe, weights))

    def _key(self, probe: str, weights: str) -> str:
        return evaluation_key(weights, asdict(self.settings) | {"probe": probe})

    def _report(
        self, model: str, weights: str, answered: Mapping[str, Mapping[str, Sequence[Prediction]]], *, finished: bool
    ) -> Report:
        columns = {probe: self._columns(predictions) for probe, predictions in answered.items()}
        plain = columns.pop(_PLAIN)
        key = self._key(_PLAIN, weights)
        return build_report(model, key, weights, asdict(self.settings), plain, columns, finished=finished)

    def _columns(self, predictions: Mapping[str, Sequence[Prediction]]) -> dict[str, BenchmarkReport]:
        """A row that could not be read fails in every column."""
        return {b.name: report_benchmark([*predictions[b.name], *_unreadable(b)], b.filters) for b in self.benchmarks}


def _outcome(row: Row, file: PredictionFile) -> Prediction:
    return file.find(row.benchmark, row.question) or failure(row, NOT_ATTEMPTED)


def _unreadable(benchmark: Benchmark) -> list[Prediction]:
    blank = Prediction(benchmark.name, id="", question="", options=(), answer="", categories={})
    return [replace(blank, id=row.id, error=row.error) for row in benchmark.unreadable]
