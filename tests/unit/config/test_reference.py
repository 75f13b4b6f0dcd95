"""The documentation of the keys is the schema's own."""

from __future__ import annotations

from pathlib import Path

from videorl.config.load import all_keys
from videorl.config.reference import reference

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_every_key_stands_in_the_reference() -> None:
    assert reference().count("\n| `") == len(list(all_keys()))


def test_the_document_ends_with_the_reference() -> None:
    _, _, written = DOCUMENT.read_text(encoding="utf-8").partition("## Every key\n\n")
    assert written.strip() == reference().strip(), (
        "the schema changed: replace all after '## Every key' with the output of `python -m videorl.config.reference`"
    )
