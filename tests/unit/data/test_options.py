"""Options from every shape, and the right one among them."""

from typing import Any

import numpy as np
import pytest

from videorl.data.options import index_of_text, read_options, resolve_answer, split_text
from videorl.errors import QuestionDropped
from videorl.types import DropReason

CARS = ("blue car", "red car", "green car", "bus")


@pytest.mark.parametrize(
    "value",
    [
        list(CARS),
        np.array(CARS),
        [f"{letter}. {text}" for letter, text in zip("ABCD", CARS, strict=True)],
        [f"{letter}) {text}" for letter, text in zip("ABCD", CARS, strict=True)],
        [f"({letter}) {text}" for letter, text in zip("ABCD", CARS, strict=True)],
        ["D. bus", "A. blue car", "C. green car", "B. red car"],
        dict(zip("ABCD", CARS, strict=True)),
        {"D": "bus", "C": "green car", "B": "red car", "A": "blue car", "E": None},
        [*CARS, None, ""],
        '["blue car", "red car", "green car", "bus"]',
    ],
)
def test_every_shape_gives_the_same_options(value: Any) -> None:
    assert read_options(value) == CARS


def test_labels_are_taken_off_only_where_all_options_carry_them() -> None:
    assert read_options(["A. Lincoln", "Washington"]) == ("A. Lincoln", "Washington")
    assert read_options(["C. Bronson", "D. Lynch"]) == ("C. Bronson", "D. Lynch")


def test_options_that_are_letters_stay_letters() -> None:
    assert read_options(["E", "B", "A"]) == ("E", "B", "A")


@pytest.mark.parametrize(
    "value", [None, [], ["only one"], ["a", None, "b"], {"X": "a", "Y": "b"}, [str(i) for i in range(27)]]
)
def test_what_is_no_set_of_options_is_dropped_as_that(value: Any) -> None:
    with pytest.raises(QuestionDropped) as dropped:
        read_options(value)
    assert dropped.value.drop.reason is DropReason.OPTIONS_NOT_FOUND


def test_the_last_run_of_option_lines_counts_and_what_follows_is_cut() -> None:
    text = "Steps:\nA. open\nB. close\nWhich is next?\nOptions:\n(A) wait\n\n(B) go\nAnswer with one letter."
    assert split_text(text) == ("Steps:\nA. open\nB. close\nWhich is next?", ("wait", "go"))


def test_a_line_that_only_looks_like_an_option_is_not_one() -> None:
    question, options = split_text("Plan B: what is it?\nA. one\nB. two\nC. three\nA note: think first.")
    assert question == "Plan B: what is it?"
    assert options == ("one", "two", "three")


@pytest.mark.parametrize(
    "answer",
    ["B", "b", "(B)", "B.", "B. red car", "B) lorry", "<answer>B</answer>", "<answer>\\boxed{B}</answer>", "red car",
     "  Red  car. ", "Ｂ", 1, 1.0, "1"],
)  # fmt: skip
def test_the_right_answer_in_every_form(answer: Any) -> None:
    assert resolve_answer(answer, CARS) == 1


@pytest.mark.parametrize(
    "answer", ["E", "", " ", None, "car", "lorry", 4, -1, 1.5, True, "A and B", [1], "<answer></answer>"]
)
def test_what_names_no_single_option_is_an_error(answer: Any) -> None:
    with pytest.raises(QuestionDropped) as dropped:
        resolve_answer(answer, CARS)
    assert dropped.value.drop.reason is DropReason.ANSWER_UNRESOLVED


def test_a_label_beats_an_options_text_and_a_text_beats_an_index() -> None:
    assert resolve_answer("B", ("B", "A", "C")) == 1
    assert resolve_answer("E", ("E", "A", "C")) == 0  # no fifth option: then it is a text
    assert resolve_answer("2", ("1", "2", "3")) == 1
    assert resolve_answer(2, ("1", "2", "3")) == 2


def test_a_text_that_two_options_share_is_no_answer() -> None:
    with pytest.raises(QuestionDropped):
        resolve_answer("same", ("same", "same", "other"))


def test_answers_that_are_texts_are_never_read_as_letters() -> None:
    assert index_of_text("A", ("C", "A", "B")) == 1
    with pytest.raises(QuestionDropped):
        index_of_text("B.", ("C", "A"))


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), -float("inf"), 10**400, 0.5])
def test_a_number_that_is_no_index_names_no_option(answer: float) -> None:
    with pytest.raises(QuestionDropped) as dropped:
        resolve_answer(answer, CARS)
    assert dropped.value.drop.reason is DropReason.ANSWER_UNRESOLVED
