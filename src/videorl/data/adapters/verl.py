"""verl: prompt [{role, content}], videos, reward_model.ground_truth, data_source, extra_info."""

from videorl.data.adapters.base import Draft, Row, adapter, categories_of, first_of
from videorl.data.adapters.turns import user_turn
from videorl.data.fields import as_mapping, plain
from videorl.data.media import MediaResolver, read_media
from videorl.data.placeholders import without_marks


@adapter("verl", "prompt", "reward_model")
def verl(row: Row, resolver: MediaResolver) -> Draft:
    media = (*read_media(row.get("videos"), "video", resolver), *read_media(row.get("images"), "image", resolver))
    content = user_turn(row["prompt"], role="role", content="content", user="user")
    extra = as_mapping(row.get("extra_info"))
    return Draft(
        text=without_marks(content, media),
        answer=as_mapping(row["reward_model"]).get("ground_truth"),
        media=media,
        id=first_of(row, "id", "uid") or first_of(extra, "id", "index", "qid"),
        source=str(plain(row["data_source"])) if row.get("data_source") else None,
        categories=categories_of(row, "ability") | categories_of(extra, "category", "type", "difficulty", "split"),
        given_prompt=content,
    )
