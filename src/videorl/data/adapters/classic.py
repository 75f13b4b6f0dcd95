"""Three video question sets with options in columns: NExT-QA, STAR and PerceptionTest."""

from videorl.data.adapters.base import Draft, Row, adapter, categories_of, first_of
from videorl.data.fields import as_index, as_list, as_mapping, as_number, as_text, invalid
from videorl.data.media import MediaResolver, by_name
from videorl.data.options import index_of_text
from videorl.types import Media


@adapter("next-qa", "video", "question", "answer", "a0", "a1", "a2", "a3", "a4")
def next_qa(row: Row, resolver: MediaResolver) -> Draft:
    """Options a0 to a4; the answer is an index, `qid` restarts for each video."""
    video = as_text(row, "video")
    return Draft(
        text=as_text(row, "question"),
        answer=as_index(row, "answer"),
        media=(by_name(video, resolver),),
        options=[as_text(row, f"a{i}") for i in range(5)],
        labelled=False,
        id=f"{video}/{qid}" if (qid := first_of(row, "qid")) else None,
        categories=categories_of(row, "type"),
    )


@adapter("star", "question", "choices", "answer", "video_id", "start", "end")
def star(row: Row, resolver: MediaResolver) -> Draft:
    """Choices [{choice_id, choice}], the answer is a choice's text; the question is about a clip of the video."""
    start, end = as_number(row["start"]), as_number(row["end"])
    if start is None or end is None or not 0 <= start < end:
        raise invalid(f"start {row['start']!r} and end {row['end']!r} are no clip in seconds")
    choices = sorted((as_mapping(choice) for choice in as_list(row["choices"])), key=lambda c: c.get("choice_id", 0))
    whole = by_name(as_text(row, "video_id"), resolver)
    return Draft(
        text=as_text(row, "question"),
        answer=row["answer"],
        resolve=index_of_text,
        media=(Media("video", whole.path, start, end),),
        options=[choice.get("choice") for choice in choices],
        labelled=False,
        id=first_of(row, "question_id"),
        categories={"type": question_id.split("_")[0]} if (question_id := first_of(row, "question_id")) else {},
    )


@adapter("perception-test", "question", "options", "answer_id")
def perception_test(row: Row, resolver: MediaResolver) -> Draft:
    """Three options and the index of the right one."""
    video = first_of(row, "video_name", "video_id", "video")
    if video is None:
        raise invalid("video_name is missing")
    number = first_of(row, "question_id", "id")
    return Draft(
        text=as_text(row, "question"),
        answer=as_index(row, "answer_id"),
        media=(by_name(video, resolver),),
        options=row["options"],
        labelled=False,
        id=f"{video}/{number}" if number else None,
        categories=categories_of(row, "area", "reasoning", "tag"),
    )
