"""Video-R1, OneThinker, EasyVideoR1: problem, options, solution `<answer>A</answer>`, path, data_type, problem_type."""

from videorl.data.adapters.base import Draft, Row, adapter, categories_of, first_of
from videorl.data.fields import as_text, plain
from videorl.data.media import MediaResolver, read_media
from videorl.errors import QuestionDropped
from videorl.types import Drop, DropReason


@adapter("video-r1", "problem", "solution")
def video_r1(row: Row, resolver: MediaResolver) -> Draft:
    kind = str(plain(row.get("problem_type")) or "multiple choice")
    if kind.replace("-", " ").replace("_", " ").strip().lower() not in ("multiple choice", "mcq"):
        raise QuestionDropped(Drop(DropReason.NOT_MULTIPLE_CHOICE, f"problem_type is {kind!r}"))
    image = str(plain(row.get("data_type")) or "video").lower() == "image"
    media = tuple(read_media(first_of(row, "path", "video", "videos"), "image" if image else "video", resolver))
    return Draft(
        text=as_text(row, "problem"),
        answer=row["solution"],
        media=media,
        options=row.get("options"),
        id=first_of(row, "problem_id", "id", "question_id"),
        source=first_of(row, "data_source"),
        categories=categories_of(row, "problem_type", "data_type"),
    )
