"""EasyR1 (videos: a list) and Long-RL (videos: a bare string): problem, answer, videos; options inside the problem."""

from videorl.data.adapters.base import Draft, Row, adapter, categories_of, first_of
from videorl.data.fields import as_text
from videorl.data.media import MediaResolver, read_media
from videorl.data.placeholders import without_marks


@adapter("easyr1", "problem", "answer", "videos")
def easyr1(row: Row, resolver: MediaResolver) -> Draft:
    media = (*read_media(row["videos"], "video", resolver), *read_media(row.get("images"), "image", resolver))
    problem = as_text(row, "problem")
    return Draft(
        text=without_marks(problem, media),
        answer=row["answer"],
        media=media,
        options=row.get("options"),
        id=first_of(row, "problem_id", "id"),
        source=first_of(row, "data_source", "source"),
        categories=categories_of(row, "problem_type"),
        given_prompt=problem,
    )
