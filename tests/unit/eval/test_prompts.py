import pytest

from builders_eval import question
from videorl.data.templates import MEDIA, as_given
from videorl.eval.prompts import as_asked


def test_training_form_leaves_the_question_to_the_reward_template() -> None:
    assert as_asked(question(), "train", "video-mme") == question()


def test_the_direct_form_asks_for_the_letter_alone() -> None:
    parts = as_given(as_asked(question(options=2), "direct", "video-r1"))
    assert [part for part in parts if part != ""] == [
        MEDIA,
        "What is shown in clip 0?\nA. thing 0\nB. thing 1\n"
        "Answer with the option's letter from the given choices directly.",
    ]


@pytest.mark.parametrize(
    ("format", "words"),
    [
        ("video-mme", "letter (A, B, C, or D) of the correct option.\nWhat is shown in clip 0?\nA. thing 0\n"),
        (
            "perceptioncomp",
            "Options: A: thing 0, B: thing 1, C: thing 2, D: thing 3\nEnd your response with `Answer: X`",
        ),
        ("video-holmes", "The options are: A: thing 0, B: thing 1, C: thing 2, D: thing 3. Your answer:"),
        ("video-r1", "Answer with the option's letter"),
    ],
)
def test_the_official_form_is_the_benchmark_own_wording(format: str, words: str) -> None:
    given = as_asked(question(), "official", format).given_prompt
    assert given is not None
    assert words in given


def test_a_question_that_spells_a_placeholder_keeps_it_as_text() -> None:
    from dataclasses import replace

    parts = as_given(as_asked(replace(question(), text="Where is the <video> tag?"), "direct", ""))
    assert parts.count(MEDIA) == 1
    assert any(isinstance(part, str) and "Where is the <video> tag?" in part for part in parts)


def test_subtitles_stand_before_the_question_in_every_form() -> None:
    trained = as_asked(question(), "train", "video-mme", "Hello.")
    assert trained.text == "This video's subtitles are listed below:\nHello.\nWhat is shown in clip 0?"
    official = as_asked(question(), "official", "video-mme", "Hello.").given_prompt
    assert official is not None
    assert official.index("Hello.") < official.index("Select the best answer")
