"""Rewards by name and by import path."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders_rewards import T, question
from videorl.config.schema import RewardConfig
from videorl.errors import UserError
from videorl.rewards.load import load_reward
from videorl.rewards.reward import MultipleChoice, Unscored, judge
from videorl.types import Score

OWN = """
from videorl.rewards.reward import Unscored
from videorl.types import Score

def shorter_is_better(question, completion, *, thinks):
    return Score(score=1 / (1 + len(completion)), accuracy=0.0, format=0.0, choice=None)

async def asks_a_judge(question, completion, *, thinks):
    return Unscored("the judge did not answer") if "?" in completion else Score(1.0, 1.0, 1.0, None)

def raises(question, completion, *, thinks):
    raise KeyError("solution")

def answers_a_number(question, completion, *, thinks):
    return 1.0

def answers_nan(question, completion, *, thinks):
    return Score(float("nan"), 0.0, 0.0, None)

def takes_one(completion):
    return 1.0

NUMBER = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_reward_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_a_profile_takes_its_numbers_from_the_config() -> None:
    assert load_reward(RewardConfig(name="vero", format_weight=0.1, min_think_chars=7)) == MultipleChoice(
        "vero", 0.1, 7
    )


async def test_a_function_of_the_users_own_is_loaded_by_its_path(own: str) -> None:
    reward = load_reward(RewardConfig(name=f"{own}:shorter_is_better"))
    assert await judge(reward, question(), "abc", thinks=False) == Score(0.25, 0.0, 0.0, None)


async def test_a_reward_may_be_awaited_and_may_refuse(own: str) -> None:
    reward = load_reward(RewardConfig(name=f"{own}:asks_a_judge"))
    assert await judge(reward, question(), "B", thinks=False) == Score(1.0, 1.0, 1.0, None)
    assert await judge(reward, question(), "B?", thinks=False) == Unscored("the judge did not answer")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raises", "the reward raised KeyError: 'solution'"),
        ("answers_a_number", "the reward answered float, not Score or Unscored"),
        ("answers_nan", "not finite"),
    ],
)
async def test_a_faulty_reward_gives_a_reason_instead_of_a_number(own: str, name: str, reason: str) -> None:
    verdict = await judge(load_reward(RewardConfig(name=f"{own}:{name}")), question(), "B", thinks=False)
    assert isinstance(verdict, Unscored)
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lettre", "known are letter and vero"),
        ("no_such_module_here:f", "ModuleNotFoundError"),
        ("{own}:missing", "has no function missing"),
        ("{own}:NUMBER", "has no function NUMBER"),
        ("{own}:takes_one", "must take (question, completion, *, thinks)"),
        (":f", "write module:function"),
    ],
)
def test_a_wrong_name_is_one_line_that_names_the_key(own: str, name: str, said: str) -> None:
    with pytest.raises(UserError, match=r"^reward\.name") as error:
        load_reward(RewardConfig(name=name.format(own=own)))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_question_without_options_cannot_be_scored() -> None:
    assert isinstance(MultipleChoice()(question(options=(), answer=0), T + "B", thinks=False), Unscored)
