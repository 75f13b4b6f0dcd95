"""One evaluation, wired: frame store, prompts and reward in this process, replicas on the cluster's devices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from videorl.cluster.evaluation_replicas import EvaluationReplicas
from videorl.config import Config
from videorl.data.prompt import PromptBuilder
from videorl.data.store import FrameStore
from videorl.data.templates import template_named
from videorl.eval.benchmarks import Benchmark
from videorl.eval.evaluation import Evaluation
from videorl.eval.predictions import Prediction, weights_digest
from videorl.eval.prepare import RowPreparer
from videorl.eval.prompts import PromptForm
from videorl.eval.report import Report
from videorl.eval.settings import EvalSettings
from videorl.export.model import weight_files
from videorl.rewards.load import load_reward


@dataclass(slots=True)
class Evaluator:
    """Evaluates any number of model folders under one config; entered, because its replicas stay until the end."""

    config: Config
    form: PromptForm = "train"
    subtitles: Path | None = None  # the media root whose subtitles are shown
    probes: Sequence[str] = ()
    _replicas: EvaluationReplicas = field(init=False)

    def __post_init__(self) -> None:
        self._replicas = EvaluationReplicas(self.config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._replicas.close()

    async def evaluate(
        self,
        model: Path,
        work: Mapping[Path, Sequence[Benchmark]],
        *,
        name: str | None = None,
        pending: Callable[[int], None] = lambda _: None,
        progress: Callable[[Prediction], None] = lambda _: None,
    ) -> list[Report]:
        """Ask a model the benchmarks of each output folder. Engines start only if some row is not answered yet.

        Args:
            name: of the model in the report; its folder where there is none.
            pending: told how many rows have to be asked.
            progress: told of each as it is answered.

        Raises:
            UserError: the folder is no model, or another evaluation writes to an output folder.
            VideorlError: its weights are damaged, or the replicas could not start, or all died.
        """
        weight_files(model)  # weights that were cut off are said now, and not by an engine
        store = FrameStore.from_config(self.config.data, self.config.store_dir)
        weights = await asyncio.to_thread(weights_digest, model)
        try:
            parts = {out: self._evaluation(model, store, benchmarks) for out, benchmarks in work.items()}
            left = sum(part.pending(weights, out) for out, part in parts.items())
            pending(left)
            engines = await self._replicas.hold(model) if left else ()
            return [await part.run(name or str(model), weights, engines, out, progress) for out, part in parts.items()]
        finally:
            store.close()

    def _evaluation(self, model: Path, store: FrameStore, benchmarks: Sequence[Benchmark]) -> Evaluation:
        config = self.config
        template = (
            template_named(config.data.prompt, config.reward.name)
            if self.form == "train"
            else template_named("as-given")  # the form has become the question's own prompt
        )
        prompts = PromptBuilder(model, template, config.data.max_prompt_tokens)
        formats = {benchmark.name: benchmark.format for benchmark in benchmarks}
        return Evaluation(
            benchmarks=benchmarks,
            settings=EvalSettings.of_config(config, self.form, subtitles=self.subtitles is not None),
            prepare=RowPreparer(store, prompts, self.form, formats, self.subtitles),
            reward=load_reward(config.reward),
            probes=self.probes,
        )
