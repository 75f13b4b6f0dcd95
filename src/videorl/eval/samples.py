"""Predictions as lmms-eval's samples (`--log_samples`), so that tools made for those can read them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from videorl.eval.predictions import Prediction
from videorl.eval.report_file import replace_file


def write_samples(folder: Path, benchmark: str, predictions: Iterable[Prediction]) -> None:
    """Write samples_BENCHMARK.jsonl. A failed row has an empty response."""
    lines = [json.dumps(_sample(i, p), ensure_ascii=False) for i, p in enumerate(predictions)]
    replace_file(folder / f"samples_{benchmark}.jsonl", "".join(f"{line}\n" for line in lines))


def _sample(number: int, prediction: Prediction) -> dict[str, object]:
    response = prediction.response or ""
    return {
        "doc_id": number,
        "doc": {
            "id": prediction.id,
            "options": prediction.options,
            "answer": prediction.answer,
            **prediction.categories,
        },
        "target": prediction.answer,
        "resps": [[response]],
        "filtered_resps": [response],
        "doc_hash": prediction.question,
        "target_hash": hashlib.sha256(prediction.answer.encode()).hexdigest(),
        "metrics": ["accuracy"],
        "accuracy": prediction.accuracy,
        "choice": prediction.choice,
        "error": prediction.error,
    }
