"""TOML files and `key.sub=value` overrides → Config, with every mistake named in one line."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import tomli_w
from pydantic import BaseModel, ValidationError

from videorl.config.schema import Config
from videorl.errors import UserError

# Paths in a file are relative to that file, those of an override to where the command is run. run.dir is always the
# latter: a preset must not write beside itself.
_PATHS = (
    ("model", "path"),
    ("data", "train"),
    ("data", "media_root"),
    ("data", "store"),
    ("eval", "benchmarks"),
    ("eval", "media_root"),
)
_SHOWN_CHARS = 200


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Read `path` (and what it extends), apply the overrides, validate.

    Raises:
        UserError: one line that names the file or key, what is wrong and what would be right.
    """
    return build_config(_read_layers(path, seen=()), overrides, path)


def build_config(tree: dict[str, Any], overrides: Sequence[str] = (), origin: Path | str = "config") -> Config:
    """A config from a tree as a TOML file gives it; `origin` stands in messages where a file's name would.

    Raises:
        UserError: as `load_config`.
    """
    for override in overrides:
        tree = _merge(tree, _anchor(_parse(override), Path.cwd()))
    _absolute_run_dir(tree)
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise UserError(_explain(error, origin)) from None


def dump_toml(config: Config) -> str:
    """The resolved config as TOML; `load_config` reads it back to an equal Config."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def _read_layers(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    try:
        resolved = path.resolve()
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: no such config file") from None
    except (OSError, ValueError, RuntimeError) as error:  # no UTF-8, a name with a null, links in a circle
        raise UserError(f"{path}: cannot be read: {error}") from None
    if resolved in seen:
        raise UserError(f"{path}: extends itself through {' -> '.join(str(p) for p in seen)}")
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of too many digits is no TOMLDecodeError
        raise UserError(f"{path}: not valid TOML: {error}") from None
    _anchor(tree, path.parent)
    base = tree.pop("extends", None)
    if base is None:
        return tree
    if not isinstance(base, str):
        raise UserError(f"{path}: extends takes one file name, not {base!r}")
    return _merge(_read_layers(path.parent / base, (*seen, resolved)), tree)


def _anchor(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Make the paths in `tree` absolute, in place."""

    def absolute(value: Any) -> Any:
        if isinstance(value, str):
            return os.path.abspath(folder / value)
        if isinstance(value, list):
            return [absolute(v) for v in value]
        if isinstance(value, dict):
            return {k: absolute(v) for k, v in value.items()}
        return value

    for section, key in _PATHS:
        table = tree.get(section)
        if isinstance(table, dict) and key in table:
            table[key] = absolute(table[key])
    return tree


def _absolute_run_dir(tree: dict[str, Any]) -> None:
    run = tree.setdefault("run", {})
    if isinstance(run, dict) and isinstance(written := run.get("dir", "runs/default"), str | Path):
        run["dir"] = os.path.abspath(written)


def _merge(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def _parse(override: str) -> dict[str, Any]:
    dotted, equals, text = override.partition("=")
    parts = dotted.strip().split(".")
    if not equals or len(parts) < 2 or not all(parts):
        raise UserError(f"override {_shown(override)}: write key.sub=value, for example trainer.lr=2e-6")
    try:
        value = tomllib.loads(f"v = {text}")
    except (ValueError, RecursionError):
        value = {"v": text.strip()}  # a bare word is a string
    if len(value) > 1:
        raise UserError(f"override {_shown(override)}: holds more than one line; give each setting as one argument")
    value = value["v"]
    if parts == ["data", "train"] and isinstance(value, str):
        value = [value]
    tree: dict[str, Any] = {parts[-1]: value}
    for part in reversed(parts[:-1]):
        tree = {part: tree}
    return tree


def _explain(error: ValidationError, path: Path | str) -> str:
    problems = error.errors()
    lines = [_explain_one(problem) for problem in problems[:5]]
    more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
    return f"{path}: " + "; ".join(lines) + more


def _explain_one(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key}{_suggestion(problem['loc'])}"
    if problem["type"] == "missing":
        return f"{key} is missing"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    if problem["type"] == "path_type":
        return f"{key} = {_shown(problem['input'])}: not a path; write it as a string"
    text = problem["msg"][0].lower() + problem["msg"][1:]
    return f"{key} = {_shown(problem['input'])}: {text}"


def _shown(value: Any) -> str:
    """A value in a message, cut where it would hide the rest of it."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _suggestion(loc: tuple[int | str, ...]) -> str:
    """The known key nearest to an unknown one: first in its own section, then anywhere."""
    name, siblings = str(loc[-1]), list(_keys_of(_model_at(loc[:-1])))
    near = difflib.get_close_matches(name, siblings, n=1)
    if near:
        return f"; did you mean {'.'.join([*map(str, loc[:-1]), near[0]])}?"
    everywhere = {key.rsplit(".", 1)[-1]: key for key in all_keys()}
    near = difflib.get_close_matches(name, list(everywhere), n=1, cutoff=0.75)
    return f"; did you mean {everywhere[near[0]]}?" if near else f"; known here: {', '.join(siblings)}"


def all_keys() -> Iterator[str]:
    """Every dotted key of the config."""
    for section in _keys_of(Config):
        for key in _keys_of(_model_at((section,))):
            yield f"{section}.{key}"


def _keys_of(model: type[BaseModel]) -> Iterator[str]:
    for name, info in model.model_fields.items():
        yield info.alias or name


def _model_at(loc: tuple[int | str, ...]) -> type[BaseModel]:
    model: type[BaseModel] = Config
    for part in loc:
        for name, info in model.model_fields.items():
            if part in (name, info.alias):
                kind = info.annotation
                kind = get_args(kind)[0] if get_origin(kind) is not None else kind
                if isinstance(kind, type) and issubclass(kind, BaseModel):
                    model = kind
    return model
