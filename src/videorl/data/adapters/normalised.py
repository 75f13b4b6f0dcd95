"""What `videorl data prepare` writes: a Question as it is, its media resolved."""

import json

from videorl.data.adapters.base import Draft, Row, adapter, first_of
from videorl.data.fields import as_index, as_list, as_mapping, as_number, as_text
from videorl.data.media import MediaResolver
from videorl.types import Media, Question


def normalised_row(question: Question) -> Row:
    """The row that `normalised` reads back to an equal Question; mappings as JSON, for their keys differ by row."""
    return {
        "videorl_id": question.id,
        "source": question.source,
        "task": question.task,
        "text": question.text,
        "options": list(question.options),
        "answer": question.answer,
        "media": [
            {"kind": m.kind, "path": m.path, "start": m.start, "end": m.end, "limits": json.dumps(dict(m.limits))}
            | {"frames": list(m.frames)}
            for m in question.media
        ],
        "categories": json.dumps(dict(question.categories), ensure_ascii=False),
        "given_prompt": question.given_prompt,
    }


@adapter("videorl", "videorl_id", "source", "text", "options", "answer", "media")
def normalised(row: Row, resolver: MediaResolver) -> Draft:
    source, whole_id = as_text(row, "source"), as_text(row, "videorl_id")
    return Draft(
        text=as_text(row, "text"),
        answer=as_index(row, "answer"),
        media=tuple(_medium(as_mapping(medium), resolver) for medium in as_list(row["media"])),
        options=row["options"],
        labelled=False,
        id=whole_id.removeprefix(f"{source}/"),
        source=source,
        categories=as_mapping(row.get("categories")),
        given_prompt=first_of(row, "given_prompt"),
    )


def _medium(written: dict[str, object], resolver: MediaResolver) -> Media:
    return Media(
        kind="image" if written.get("kind") == "image" else "video",
        path=resolver.resolve(str(written.get("path") or "")),
        start=as_number(written.get("start")),
        end=as_number(written.get("end")),
        limits={name: float(limit) for name, limit in as_mapping(written.get("limits")).items()},
        frames=tuple(resolver.resolve(str(frame)) for frame in as_list(written.get("frames"))),
    )
