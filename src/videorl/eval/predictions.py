"""What a model answered, kept row by row in predictions.jsonl.

The file only grows while an evaluation runs: one write for each line, so that a killed evaluation loses at most the
line it was writing. Opening it again drops what must be asked once more (a cut last line, rows that failed) and sets
aside answers under another key, in `predictions-KEY.jsonl`, from where they come back when that key is evaluated again.

Invariant: of the rows under the current key, each (benchmark, id, question) stands in the file at most once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from videorl.errors import UserError, unwritten
from videorl.types import Question

NOT_ATTEMPTED = "not_attempted: the evaluation ended before this row"


@dataclass(slots=True, frozen=True)
class Prediction:
    """One row of one benchmark and what came of it. Made by the runner; read by the report, `compare` and the card."""

    benchmark: str
    id: str
    question: str  # fingerprint of the question as it was asked
    options: tuple[str, ...]
    answer: str  # the right letter
    categories: Mapping[str, str]
    response: str | None = None  # None: the row failed
    choice: str | None = None  # the letter that was answered
    accuracy: float = 0.0
    format: float = 0.0
    score: float = 0.0
    tokens: int = 0
    finish_reason: str | None = None
    frames: tuple[str, ...] = field(default_factory=tuple)  # keys of the frames that were seen
    error: str | None = None  # "reason: detail" of a row that failed

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.benchmark, self.id, self.question

    @property
    def failed(self) -> bool:
        return self.error is not None

    @property
    def correct(self) -> bool:
        return self.accuracy == 1.0


_PREDICTION = TypeAdapter(Prediction)


def fingerprint(question: Question) -> str:
    """Digest of all that a question asks: an edited row is another row."""
    media = [asdict(medium) for medium in question.media]
    return _digest([question.text, question.given_prompt, question.options, question.answer, media])[:16]


def weights_digest(model: Path) -> str:
    """Digest of every file of a model folder that can change an answer: weights, configs, tokenizer, template.

    The files' content is read, never their times: new weights under an old path are other weights.

    Raises:
        UserError: the folder holds no safetensors.
    """
    if not model.is_dir():
        raise UserError(f"{model}: no such folder; a Hugging Face model folder is needed")
    names = sorted(p.name for p in model.iterdir() if p.suffix in {".safetensors", ".json", ".jinja", ".txt"})
    if not any(name.endswith(".safetensors") for name in names):
        raise UserError(f"{model}: no *.safetensors in it; a Hugging Face model folder is needed")
    with ThreadPoolExecutor() as pool:
        digests = list(pool.map(lambda name: _file_digest(model / name), names))
    return _digest(list(zip(names, digests, strict=True)))


def evaluation_key(weights: str, settings: Mapping[str, Any]) -> str:
    """Names the answers of these weights under these settings."""
    return _digest({"weights": weights, "settings": settings})[:16]


class PredictionFile:
    """Append-only predictions of one evaluation. One process may hold it at a time."""

    def __init__(self, path: Path, key: str) -> None:
        """Open or create `path` for the answers under `key`.

        Raises:
            UserError: another evaluation holds the file, or the folder cannot be written.
            VideorlError: the disk is full.
        """
        self._key = key
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(path.with_name(f".{path.stem}.lock"))
            self._rows = _settle(path, key)
            self._file = path.open("ab", buffering=0)
        except OSError as error:
            raise unwritten(path, error) from None

    def __enter__(self) -> PredictionFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        os.close(self._lock)

    def find(self, benchmark: str, question: Question) -> Prediction | None:
        """What is known about a row: its answer, its failure in this session, or nothing."""
        return self._rows.get((benchmark, question.id, fingerprint(question)))

    def append(self, prediction: Prediction) -> None:
        if prediction.identity in self._rows:
            raise ValueError(f"{prediction.benchmark} {prediction.id} already stands in {self._file.name}")
        self._file.write(_line(self._key, prediction))
        self._rows[prediction.identity] = prediction


def read_predictions(path: Path) -> list[Prediction]:
    """Every whole line of a predictions file.

    Raises:
        UserError: there is no such file, or a whole line of it is no prediction.
    """
    if not path.is_file():
        raise UserError(f"{path}: no predictions there; `videorl eval --out {path.parent}` writes them")
    predictions = []
    for number, (line, found) in enumerate(_lines(path), start=1):
        if found is None and line.endswith(b"\n"):
            raise UserError(f"{path}:{number}: not a prediction of videorl eval; evaluate again to ask that row anew")
        predictions += [found[1]] if found else []
    return predictions


def _settle(path: Path, key: str) -> dict[tuple[str, str, str], Prediction]:
    """Leave only finished answers under `key` in `path`; the others move to files of their own key."""
    aside = _aside(path, key)
    mine: dict[tuple[str, str, str], Prediction] = {}
    others: dict[str, list[Prediction]] = {}
    for found, prediction in (*_read(aside), *_read(path)):
        if prediction.failed:
            continue
        if found == key:
            mine[prediction.identity] = prediction
        else:
            others.setdefault(found, []).append(prediction)
    for other, predictions in others.items():
        known = {p.identity: p for _, p in _read(_aside(path, other))}
        known |= {p.identity: p for p in predictions}
        _write(_aside(path, other), other, known.values())
    _write(path, key, mine.values())
    aside.unlink(missing_ok=True)
    return mine


def _aside(path: Path, key: str) -> Path:
    return path.with_name(f"{path.stem}-{key}{path.suffix}")


def _read(path: Path) -> Iterator[tuple[str, Prediction]]:
    if path.is_file():
        # What is no prediction is the line that a killed evaluation was writing: its row is asked again.
        yield from (found for _, found in _lines(path) if found is not None)


def _lines(path: Path) -> Iterator[tuple[bytes, tuple[str, Prediction] | None]]:
    """Each line with the key and the prediction that it holds, if it does."""
    with path.open("rb") as lines:
        for line in lines:
            try:
                fields = json.loads(line)
                yield line, (str(fields["key"]), _PREDICTION.validate_python(fields))
            except (ValueError, KeyError, TypeError, RecursionError):
                yield line, None


def _write(path: Path, key: str, predictions: Iterable[Prediction]) -> None:
    draft = path.with_suffix(".tmp")
    with draft.open("wb") as file:
        file.writelines(_line(key, p) for p in predictions)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _line(key: str, prediction: Prediction) -> bytes:
    return json.dumps({"key": key, **asdict(prediction)}, ensure_ascii=False).encode() + b"\n"


def _lock(path: Path) -> int:
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise UserError(f"{path.parent}: another evaluation is writing here; give --out another folder") from None
    return handle


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
