"""Which option a text answers with."""

from __future__ import annotations

import time
from pathlib import Path
from string import ascii_uppercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders_rewards import CARS
from videorl.rewards.answers import find_boxes, read_choice, read_response


def answer(text: str, options: tuple[str, ...] = CARS) -> str | None:
    return read_choice(read_response(text, thinks=False).tail, options)


@pytest.mark.parametrize(
    ("tail", "choice"),
    [
        # (a) one letter, in either case, with or without brackets or a full stop
        ("[C]", "C"),
        ("(d).", "D"),
        ("B)", "B"),
        ("**(B)**", "B"),
        ("_B_", "B"),
        ("`b`", "B"),
        ("B<|im_end|>\n<|endoftext|>", "B"),
        ("Ｂ．", "B"),
        ("Final answer: B", "B"),
        ("Final Answer: Option (B)", "B"),
        ("Answer: Option B.", "B"),
        ("a", "A"),
        ("B。", "B"),
        # (b) a capital that labels what follows, whatever follows says
        ("B) green car", "B"),
        ("(B) green car", "B"),
        ("B - red car", "B"),
        ("B, because A moves the other way", "B"),
        ("C since the answer is A", "C"),
        ("C as it passes", "C"),
        ("C due to its colour", "C"),
        ("C given A, B and D are parked", "C"),
        ("B、红色", "B"),
        ("B. B", "B"),
        # (c) the last declaration
        ("The answer is A. No, wait: the answer is B.", "B"),
        ("Option A is wrong, option C is wrong; the answer is D", "D"),
        ("I would go with option C.", "C"),
        ("My choice: D", "D"),
        ("The answer is b.", "B"),
        ("The answer is **B**, the red car", "B"),
        ("The answer is B\nA moves left", "B"),
        ("The correct answer is: [C]!", "C"),
        ("It passes. Answer: C", "C"),
        # (d) exactly one option's whole text
        ("Red Car.", "B"),
        ("**bus**", "D"),
        ("Answer: green   car", "C"),
        (r"\boxed{\text{green car}}", "C"),
    ],
)
def test_a_commitment_to_one_option_is_read(tail: str, choice: str) -> None:
    assert answer(tail) == choice


@pytest.mark.parametrize(
    "tail",
    [
        "The answer is A or B.",
        "The answer is A, B",
        "The answer is A/B.",
        "The answer is AB.",
        "Options: A, B",
        "(A) and (B)",
        "A, and B",
        "BB",
        "B, B",
        "a, b",
        "The answer is a red car",
        "The answer is a",
        "The answer is not B",
        "The answer is E.",
        "The answer is B. Or rather, the answer is E.",
        "The answer is B. Or rather: option A or C.",
        "E. red car",
        "car",
        "red",
        "red car or green car",
        "The Bus passes A Car",
        "I think it moves",
        "B",  # in a question of one letter only the first is offered; see below
        ".",
        "\\boxed{}",
        "\\boxed{B} \\boxed{}",
        "<answer>B</answer><answer>",
    ],
)
def test_anything_else_is_no_answer(tail: str) -> None:
    options = CARS if tail != "B" else CARS[:1]
    assert answer(tail, options) is None


@pytest.mark.parametrize(
    "tail",
    [
        "The answer is B.",
        "答案是B。",
        "正确答案：B",
        "答案为 (B)",
        "所以选B",
        "故选择B，因为它在动",
        "答案是B因为它在动",
        "答えはBです。",
        "정답은 B입니다.",
        "Die richtige Antwort ist B.",
        "Die Antwort lautet: B, weil es fährt",
        "La bonne réponse est B.",
        "Réponse : B",
        "La respuesta correcta es B.",
        "Elijo la opción B",
        "A resposta é B.",
        "La risposta corretta è B!",
        "Правильный ответ — B.",
    ],
)
def test_a_declaration_counts_in_every_documented_language(tail: str) -> None:
    assert answer(tail) == "B"


def test_a_label_beats_an_options_text() -> None:
    assert read_choice("B", ("B", "A", "E")) == "B"
    assert read_choice("E", ("B", "A", "E")) == "C"
    assert read_choice("A and B", ("A", "B", "A and B")) == "C"


def test_an_options_text_counts_only_whole_and_only_where_it_is_unique() -> None:
    assert read_choice("car", ("car", "red car")) == "A"
    assert read_choice("car", ("car", "Car.", "bus")) is None
    assert read_choice("Option 2", ("Option 1", "Option 2", "2")) == "B"
    assert read_choice("F. Scott Fitzgerald", ("Proust", "F. Scott Fitzgerald")) == "B"
    assert read_choice("", ("", "red car")) is None


def test_the_last_answer_block_and_in_it_the_last_balanced_box_decide() -> None:
    assert read_choice(r"\boxed{A} <answer>C</answer> D", CARS) == "C"
    assert read_choice(r"<answer>A</answer> <answer>it is \boxed{B}, I think", CARS) == "B"
    assert read_choice(r"\boxed{A}, no, \boxed{B}", CARS) == "B"
    assert read_choice(r"\boxed{\boxed{B}}", CARS) == "B"
    assert find_boxes(r"{ \boxed{a{b}c} \boxed{ } \boxed{d") == ["a{b}c", " "]


def test_the_tail_begins_after_the_last_think_block() -> None:
    assert read_response("<think>A</think>B", thinks=False).tail == "B"
    assert read_response("<think>A</think>B<think>C</think>D", thinks=False).tail == "D"
    assert read_response("<think>A</think>B<think>C", thinks=False).tail == ""
    assert read_response("<THINK>the answer is B", thinks=False).tail == ""
    assert read_response("no tags", thinks=False).tail == "no tags"


def test_thoughts_need_one_ordered_pair_at_the_very_beginning() -> None:
    assert read_response("<think> a </think>B", thinks=False).thoughts == "a"
    for text in ("x<think>a</think>B", "</think><think>B", "<think><think>a</think>B", "<think>a</think></think>B"):
        assert read_response(text, thinks=False).thoughts is None


PIECES = ["<think>", "</think>", "<answer>", "</answer>", "\\boxed{", "}", "{", "A", "B", "E", " and ", ", ", "."]
PIECES += [
    "The answer is ",
    "option ",
    "because",
    "**",
    "(",
    ")",
    "\n",
    "red car",
    "答案是",
    "ﬁ",
    "\u0301",
    "<|im_end|>",
]
responses = st.text() | st.lists(st.sampled_from(PIECES), max_size=20).map("".join)


@given(responses, st.lists(st.text(), max_size=30), st.booleans())
def test_any_text_gives_an_offered_letter_or_none(response: str, options: list[str], thinks: bool) -> None:
    choice = read_choice(read_response(response, thinks=thinks).tail, options)
    assert choice is None or choice in ascii_uppercase[: len(options)]


HOSTILE = [
    "{",
    "\\boxed{",
    "\\boxed{}",
    "\\text{",
    "}",
    "(",
    " ",
    "\n ",
    "A ",
    "A, ",
    "A or ",
    "(A)",
    "the answer is ",
    "the answer is A ",
    "option ",
    "answer",
    "<answer>",
    "</answer>",
    "<think>",
    "</think>",
    "_",
    "Option: ",
    "\u0301\u0323",
    "选",
    "<|",
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("start", ["", "The answer is "])
def test_reading_takes_linear_time(start: str, piece: str) -> None:
    def seconds(size: int) -> float:
        """This thread's, the least of three: a collection of garbage in between is none of the reader's work."""
        text = start + piece * (size // len(piece)) + "x"
        taken = []
        for _ in range(3):
            began = time.thread_time()
            answer(text)
            taken.append(time.thread_time() - began)
        return min(taken)

    # Twenty times the text may take twenty times as long; a quadratic step would take four hundred. The constant
    # covers what is too short to be measured.
    assert seconds(100_000) < 60 * seconds(5_000) + 0.1


def documented_declarations() -> list[str]:
    document = Path(__file__).parents[3] / "docs" / "rewards.md"
    rows = [line.split("|") for line in document.read_text(encoding="utf-8").splitlines() if line.count("|") == 3]
    return [example.strip() for row in rows for example in row[2].split("·") if example.strip(" -")]


def test_the_documented_declarations_are_found() -> None:
    assert len(documented_declarations()) > 25


@pytest.mark.parametrize("example", documented_declarations())
def test_every_example_of_a_declaration_in_the_documentation_is_read(example: str) -> None:
    assert answer(f"It moves left, so {example}.") == "B"
