"""The user's turn of a conversation field."""

from typing import Any

from videorl.data.fields import as_list, as_mapping, invalid


def user_turn(turns: Any, *, role: str, content: str, user: str) -> str:
    """The text of the last turn that `user` speaks. A list of typed parts becomes text with `<video>` placeholders.

    Raises:
        QuestionDropped: ROW_INVALID where there is none.
    """
    for turn in reversed([as_mapping(item) for item in as_list(turns)]):
        if turn.get(role) == user:
            said = turn.get(content)
            text = said if isinstance(said, str) else "".join(_part(as_mapping(part)) for part in as_list(said))
            if text.strip():
                return text
    raise invalid(f"no turn of {user!r} with a text")


def _part(part: dict[str, Any]) -> str:
    kind = part.get("type")
    return f"<{kind}>" if kind in ("video", "image") else str(part.get("text", ""))
