"""Which `<video>` and `<image>` in a text stand for a medium; the others are text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from videorl.data.fields import invalid
from videorl.types import Media


def split_at_media(text: str, media: Sequence[Media]) -> list[str]:
    """The text between the places of the media: one piece more than there are places; one piece where none is marked.

    Marks at the very beginning count first. Elsewhere they count where there are exactly as many as media: a text that
    has more, and none at its beginning, only speaks of them.

    Raises:
        QuestionDropped: ROW_INVALID where some, but not all, media are marked.
    """
    if not media:
        return [text]
    mark = "|".join(sorted({f"<{medium.kind}>" for medium in media}))
    spans = [match.span() for match in re.finditer(mark, text)]
    leading = len(re.findall(mark, match.group())) if (match := re.match(rf"\s*(?:(?:{mark})\s*)+", text)) else 0
    if len(spans) > len(media) and not leading:
        return [text]
    if 0 < len(spans) < len(media):
        raise invalid(f"{len(media)} media, but {len(spans)} {mark} placeholders")
    edges = [0, *(edge for span in spans[: len(media)] for edge in span), len(text)]
    return [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]


def without_marks(text: str, media: Sequence[Media]) -> str:
    """The text alone.

    Raises:
        QuestionDropped: as `split_at_media`.
    """
    return "".join(split_at_media(text, media)).strip()
