"""The run directory: what lies where, who may write there, and how a run goes on in it.

    RUN/config.toml        the resolved config; a resumed run has to have the same
    RUN/status.json        how the run stands (run_state.py)
    RUN/metrics.jsonl      one object a fit step          RUN/events.jsonl     what happened, one object an event
    RUN/rollouts/          every response, one file a fit step
    RUN/ledger.sqlite      RUN/checkpoints/               RUN/eval/            RUN/lock

Invariant: one process at a time holds RUN/lock, from before the first file is written until it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from videorl.config.load import dump_toml
from videorl.config.schema import Config
from videorl.errors import UserError, VideorlError
from videorl.monitor.steps import steps_of
from videorl.orchestration.checkpoints import Checkpoint, Checkpoints
from videorl.orchestration.files import write_atomically

# What a resumed run may change: how long it goes on, what a person sees, and two keys that say nothing about what is
# trained (`dir` is where this config was found, `resume` has been obeyed by now).
_FREE_KEYS = ("run.max_steps", "run.dir", "run.resume")
_FREE_SECTION = "monitor."


class RunDir:
    """A run directory that this process holds. Use as a context manager.

    Raises on opening:
        UserError: another run holds it; `resume = "never"` and it holds a run; its config differs (the key is named).
        VideorlError: it cannot be written.
    """

    def __init__(self, config: Config) -> None:
        self.root = config.run.dir
        self.checkpoints = Checkpoints(self.root / "checkpoints")
        self._lock: int | None = None
        self._config = config

    def __enter__(self) -> Self:
        try:
            for folder in (self.root, self.rollouts, self.root / "checkpoints"):
                folder.mkdir(parents=True, exist_ok=True)
            self._hold()
        except OSError as error:
            raise VideorlError(f"run.dir {self.root}: cannot be written: {error.strerror or error}") from None
        try:
            self._settle_config()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    @property
    def status(self) -> Path:
        return self.root / "status.json"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.jsonl"

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def rollouts(self) -> Path:
        return self.root / "rollouts"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.sqlite"

    def resume_point(self) -> Checkpoint | None:
        """The checkpoint to go on from, with everything that was written after it cut off; None: a fresh start.

        Call it before the files are opened for writing.
        """
        self.checkpoints.clear_incomplete()
        last = self.checkpoints.last()
        step = last.point.step if last else 0
        cut_after(self.metrics, step)
        cut_after(self.events, step)
        for later in steps_of(self.rollouts.iterdir()):
            if later > step:
                (self.rollouts / f"step-{later:06d}.jsonl").unlink()
        return last

    def keeper(self) -> int | None:
        """The step that evaluation found best, if it has said so."""
        try:
            return json.loads((self.root / "eval" / "keeper.json").read_text(encoding="utf-8"))["step"]
        except (OSError, ValueError, KeyError, TypeError):
            return None  # none yet, or being written

    def _hold(self) -> None:
        self._lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._lock, 32).decode(errors="replace").strip()
            self._release()
            raise UserError(
                f"run.dir {self.root}: a run is going on in it (process {holder or 'unknown'}): "
                f"stop that one or choose another run.dir"
            ) from None
        os.truncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _settle_config(self) -> None:
        path = self.root / "config.toml"
        text = dump_toml(self._config)
        if path.exists():
            if self._config.run.resume == "never":
                raise UserError(f'run.dir {self.root}: holds a run: set run.resume = "auto" or choose another run.dir')
            self._refuse_changes(path, tomllib.loads(text))
        write_atomically(path, text)

    def _refuse_changes(self, path: Path, now: dict[str, Any]) -> None:
        try:
            tree = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read: {error}: restore it or choose another run.dir") from None
        with contextlib.suppress(ValidationError):  # what is no config is compared as it stands
            tree = tomllib.loads(dump_toml(Config.model_validate(tree)))  # with defaults of keys that came later
        then, new = dict(_flat(tree)), dict(_flat(now))
        for key in sorted(then.keys() | new.keys()):
            if key in _FREE_KEYS or key.startswith(_FREE_SECTION) or then.get(key) == new.get(key):
                continue
            raise UserError(
                f"{path}: {key} was {_shown(then, key)} and is now {_shown(new, key)}: "
                f"set it back to go on with this run, or choose another run.dir"
            )


def cut_after(path: Path, step: int) -> None:
    """Keep the lines of a JSONL file up to fit step `step`, and those that belong to no step; drop a torn last line."""
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    kept = [line for line in lines if line.endswith("\n") and _step_of(line, path) <= step]
    if len(kept) < len(lines):
        write_atomically(path, "".join(kept))


def _step_of(line: str, path: Path) -> int:
    try:
        return int(json.loads(line).get("step") or 0)
    except (ValueError, AttributeError, TypeError):
        raise VideorlError(f"{path}: holds a line that is no JSON object: {line[:80]!r}: remove it to go on") from None


def _flat(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _shown(values: dict[str, Any], key: str) -> str:
    return repr(values[key]) if key in values else "unset"
