"""Families of questions, and what a teacher writes about them."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binomtest

from videorl.playground.questions import (
    COLOUR_PAIRS,
    DIRECTION_PAIRS,
    FAMILIES,
    NUMBERS,
    PATTERN_PAIRS,
    Item,
    draw_item,
)
from videorl.playground.scenes import paint
from videorl.playground.traces import HABITS, LETTERS, careful_response, hasty_response
from videorl.playground.videos import COLOURS
from videorl.rewards.reward import MultipleChoice
from videorl.types import Question, Score


def items(family: str, count: int, options: int, seed: int = 0) -> list[Item]:
    rng = np.random.default_rng(seed)
    return [draw_item(family, options, rng) for _ in range(count)]


def scored(item: Item, response: str) -> Score:
    question = Question("q", "multiple_choice", item.text, item.options, item.answer, (), "playground")
    score = MultipleChoice()(question, response, thinks=False)
    assert isinstance(score, Score)
    return score


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_state_draws_the_same_item(family: str) -> None:
    first, second = items(family, 2, 5), items(family, 2, 5)
    assert first == second
    assert first[0] != first[1]
    assert np.array_equal(paint(first[0].scene), paint(second[0].scene))


@pytest.mark.parametrize("options", [4, 5, 6])
@pytest.mark.parametrize("family", FAMILIES)
def test_neither_letter_nor_value_nor_company_gives_the_answer_away(family: str, options: int) -> None:
    drawn = items(family, 600, options)
    offered = len(drawn[0].options)
    assert offered == (min(options, 5) if family == "count" else options)
    assert all(len(set(item.options)) == offered for item in drawn)
    letters = max(sum(item.answer == i for item in drawn) for i in range(offered))
    assert binomtest(letters, 600, 1 / offered, "greater").pvalue > 1e-4
    # The best guess from the set of options alone, learnt on one half and tried on the other.
    known: dict[tuple[str, ...], list[str]] = {}
    for item in drawn[:300]:
        known.setdefault((item.text, *sorted(item.options)), []).append(item.value)
    asked = [item for item in drawn[300:] if (item.text, *sorted(item.options)) in known]
    guesses = [max(values, key=values.count) for i in asked for values in [known[(i.text, *sorted(i.options))]]]
    right = sum(guess == item.value for guess, item in zip(guesses, asked, strict=True))
    assert not asked or binomtest(right, len(asked), 1 / offered, "greater").pvalue > 1e-4


@pytest.mark.parametrize("family", ["colour", "pattern", "direction"])
def test_an_option_without_its_look_alike_is_no_likelier_than_another(family: str) -> None:
    pairs = {"colour": COLOUR_PAIRS, "pattern": PATTERN_PAIRS, "direction": DIRECTION_PAIRS}[family]
    drawn = items(family, 1_000, 5)
    lonely = [next(v for pair in pairs for v in pair if {*pair} & {*i.options} == {v}) for i in drawn]
    right = sum(item.value == value for item, value in zip(drawn, lonely, strict=True))
    assert binomtest(right, len(drawn), 1 / 5).pvalue > 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_a_careful_response_is_right_and_well_formed(family: str) -> None:
    for item in items(family, 60, 5):
        score = scored(item, careful_response(item))
        assert (score.accuracy, score.format) == (1, 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_hasty_response_is_well_formed_and_wrong_by_habit_only(family: str) -> None:
    rng = np.random.default_rng(1)
    wrong = 0
    for item in items(family, 300, 6):
        score = scored(item, hasty_response(item, rng))
        assert score.format == 1
        assert score.choice in LETTERS[: len(item.options)]
        habitual = any(f"{key}?" in item.text for key in HABITS[family]) or item.value in HABITS[family]
        assert score.accuracy == 1 or habitual
        wrong += score.accuracy == 0
    assert 60 < wrong < 260


def test_what_a_scene_says_is_what_its_frames_show() -> None:
    for item in items("order", 5, 4):
        clip = paint(item.scene)
        for second, colour in enumerate(item.scene.seconds):
            assert np.abs(clip[8 * second + 4].mean((0, 1)) - COLOURS[colour]).max() < 15
    for item in items("direction", 20, 6):
        clip = paint(item.scene)
        assert np.array_equal(clip[0], clip[-1]) == (item.value == "nowhere")
    for item in items("count", 10, 5):
        clip = paint(item.scene).astype(int)
        lit = [np.abs(frame - 128).mean() > 12 for frame in clip]
        assert sum(now and not before for before, now in pairwise([False, *lit])) == NUMBERS.index(item.value)
