"""Think-and-answer conversations for supervised training: messages [{role, content}] that end with the assistant.

The last assistant turn is the demonstration, the user turn before it the prompt, verbatim; `videos` and `images` name
the media of its `<video>` and `<image>` marks, as in ms-swift's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from videorl.config.schema import DataConfig
from videorl.data.adapters.turns import user_turn
from videorl.data.dataset import Dataset, gathered
from videorl.data.fields import as_list, as_mapping, invalid
from videorl.data.media import MediaResolver, read_media
from videorl.data.questions import FileReport, ReadRow
from videorl.data.rows import Row, expand, read_rows
from videorl.errors import QuestionDropped
from videorl.types import Drop, Question

TASK = "demonstration"


def load_demonstrations(data: DataConfig, seed: int) -> tuple[Dataset, list[FileReport]]:
    """Read the files of a supervised run.

    Raises:
        UserError: a file that cannot be read, or no conversation is left.
    """
    rows = read_conversations(data.train, media_root=data.media_root, remap=data.remap)
    return gathered(rows, data, seed, "conversation")


def read_conversations(
    files: Sequence[Path], *, media_root: Path | None = None, remap: Mapping[str, str] | None = None
) -> Iterator[ReadRow]:
    """Stream every row of `files`, each a Question with its demonstration or a Drop.

    Raises:
        UserError: a file that is missing or unreadable.
    """
    for path in expand(files):
        resolver = MediaResolver(media_root or path.parent, remap or {})
        for number, row in enumerate(read_rows(path), start=1):
            try:
                outcome = row if isinstance(row, Drop) else _conversation(row, resolver, f"{path.stem}/{number}")
            except QuestionDropped as dropped:
                outcome = Drop(dropped.drop.reason, f"{path}, row {number}: {dropped.drop.detail}")
            yield ReadRow(path, number, "conversations", outcome)


def _conversation(row: Row, resolver: MediaResolver, id: str) -> Question:
    turns = [as_mapping(turn) for turn in as_list(row.get("messages"))]
    if not turns or turns[-1].get("role") != "assistant":
        raise invalid("messages must end with a turn of the assistant")
    said = turns[-1].get("content")
    if not isinstance(said, str) or not said.strip():
        raise invalid("the assistant's turn is empty")
    media = (*read_media(row.get("videos"), "video", resolver), *read_media(row.get("images"), "image", resolver))
    prompt = user_turn(turns[:-1], role="role", content="content", user="user")
    return Question(
        id=str(row.get("id") or id),
        task=TASK,
        text=prompt,
        options=(),
        answer=-1,
        media=media,
        source=str(row.get("data_source") or id.partition("/")[0]),
        given_prompt=prompt,
        demonstration=said,
    )
