"""From a row to its prompt: frames, subtitles, prompt form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from videorl.data.prompt import PromptBuilder
from videorl.data.source import FrameSource
from videorl.eval.benchmarks import find_subtitles
from videorl.eval.prompts import PromptForm, as_asked
from videorl.eval.runner import Row
from videorl.eval.subtitles import read_srt, subtitles_at
from videorl.types import Frames, Prompt, Question


@dataclass(slots=True, frozen=True)
class RowPreparer:
    """Implements the runner's Preparer."""

    source: FrameSource
    prompts: PromptBuilder
    form: PromptForm
    formats: Mapping[str, str]  # of the benchmarks' files
    subtitles: Path | None  # the media root whose subtitles are shown; None: no subtitles

    def __call__(self, row: Row) -> Prompt:
        refs = [self.source.reference(medium) for medium in row.question.media]
        media = [(ref, self.source.load(ref)) for ref in refs]
        said = self._said(row.question, [frames for _, frames in media])
        return self.prompts.build(as_asked(row.question, self.form, self.formats[row.benchmark], said), media)

    def _said(self, question: Question, frames: list[Frames]) -> str:
        path = find_subtitles(question, self.subtitles) if self.subtitles else None
        if path is None or not frames:
            return ""
        return subtitles_at(read_srt(path), np.concatenate([f.timestamps for f in frames]))
