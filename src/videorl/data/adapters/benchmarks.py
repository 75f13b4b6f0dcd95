"""The three benchmarks of the reference evaluation: Video-MME, PerceptionComp and Video-Holmes."""

import re

from videorl.data.adapters.base import Draft, Row, adapter, categories_of, first_of
from videorl.data.fields import as_index, as_list, as_text
from videorl.data.media import MediaResolver, by_name
from videorl.data.options import index_of_text


@adapter("video-mme", "videoID", "question_id", "question", "options", "answer")
def video_mme(row: Row, resolver: MediaResolver) -> Draft:
    return Draft(
        text=as_text(row, "question"),
        answer=row["answer"],
        media=(by_name(as_text(row, "videoID"), resolver),),
        options=row["options"],
        id=first_of(row, "question_id"),
        categories=categories_of(row, "duration", "domain", "sub_category", "task_type"),
    )


@adapter("perceptioncomp", "key", "video_id", "question", "answer_choice_0", "answer_id")
def perceptioncomp(row: Row, resolver: MediaResolver) -> Draft:
    """`answer_id` decides; the text in `answer` differs from the option it names in some rows."""
    choices = sorted((k for k in row if re.fullmatch(r"answer_choice_\d+", k)), key=lambda k: int(k.rsplit("_", 1)[1]))
    return Draft(
        text=as_text(row, "question"),
        answer=as_index(row, "answer_id"),
        media=(by_name(as_text(row, "video_id"), resolver),),
        options=[row[choice] for choice in choices],
        labelled=False,
        id=first_of(row, "key"),
        categories=categories_of(row, "category", "difficulty"),
    )


@adapter("video-holmes", "video ID", "Question ID", "Question", "Options", "Answer")
def video_holmes(row: Row, resolver: MediaResolver) -> Draft:
    """Options by letter and a letter as answer, or a list, the answer's text and `solution` `<answer>F</answer>`."""
    video = as_text(row, "video ID")
    answer, solution = row["Answer"], row.get("solution")
    is_text = solution is None and bool(as_list(row["Options"])) and len(str(answer).strip()) > 3
    return Draft(
        text=as_text(row, "Question"),
        answer=answer if solution is None else solution,
        resolve=index_of_text if is_text else None,
        media=(by_name(video, resolver),),
        options=row["Options"],
        id=f"{video}/{as_text(row, 'Question ID')}",  # restarts for each video
        categories=categories_of(row, "Question Type"),
    )
