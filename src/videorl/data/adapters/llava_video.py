"""LLaVA-Video-178K: id, conversations [{from, value}], video; the options stand inside the human's turn.

The format marks its video by `<image>`. Each speaker's first turn counts; a question without options is an open one.
"""

from videorl.data.adapters.base import Draft, Row, adapter, categories_of, first_of
from videorl.data.fields import as_list, as_mapping, invalid
from videorl.data.media import MediaResolver, read_media
from videorl.data.options import split_text
from videorl.data.placeholders import without_marks
from videorl.errors import QuestionDropped
from videorl.types import Drop, DropReason


@adapter("llava-video", "conversations", "video")
def llava_video(row: Row, resolver: MediaResolver) -> Draft:
    turns = [as_mapping(turn) for turn in as_list(row["conversations"])]
    said = {turn.get("from"): str(turn.get("value", "")) for turn in reversed(turns)}  # the first of each speaker
    if "human" not in said or "gpt" not in said:
        raise invalid("conversations need a turn of 'human' and one of 'gpt'")
    media = tuple(read_media(row["video"], "video", resolver))
    given = said["human"].replace("<image>", "<video>", len(media))
    text = without_marks(given, media)
    try:
        split_text(text)
    except QuestionDropped:
        raise QuestionDropped(Drop(DropReason.NOT_MULTIPLE_CHOICE, "an open question, without options")) from None
    return Draft(
        text=text,
        answer=said["gpt"],
        media=media,
        id=first_of(row, "id"),
        source=first_of(row, "data_source"),
        categories=categories_of(row, "data_source"),
        given_prompt=given,
    )
