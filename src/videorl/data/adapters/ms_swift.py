"""ms-swift: messages [{role, content}], videos, solution."""

from videorl.data.adapters.base import Draft, Row, adapter, first_of
from videorl.data.adapters.turns import user_turn
from videorl.data.media import MediaResolver, read_media
from videorl.data.placeholders import without_marks


@adapter("ms-swift", "messages", "solution")
def ms_swift(row: Row, resolver: MediaResolver) -> Draft:
    media = (*read_media(row.get("videos"), "video", resolver), *read_media(row.get("images"), "image", resolver))
    content = user_turn(row["messages"], role="role", content="content", user="user")
    return Draft(
        text=without_marks(content, media),
        answer=row["solution"],
        media=media,
        options=row.get("options"),
        id=first_of(row, "id"),
        given_prompt=content,
    )
