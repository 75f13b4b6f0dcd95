"""Every key of the config as Markdown, from the fields themselves: `python -m videorl.config.reference` prints it.

docs/configuration.md ends with it, and a test keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from videorl.config.schema import Config


def reference() -> str:
    """One table a section: key, default, meaning."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for name, section in Config.model_fields.items():
        yield f"### {section.alias or name}"
        yield ""
        yield "| key | default | |"
        yield "|---|---|---|"
        fields: Mapping[str, FieldInfo] = section.annotation.model_fields  # type: ignore[union-attr]
        for key, field in fields.items():
            meaning = " ".join((field.description or "").split()).replace("|", "\\|")
            yield f"| `{key}` | {_default(field)} | {meaning} |"
        yield ""


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    return "unset" if field.default is None else f"`{_toml(field.default)}`"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    return "{}" if value == {} else f"{value:_}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    print(reference(), end="")
