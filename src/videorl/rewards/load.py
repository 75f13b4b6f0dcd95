"""The reward that the config names: a multiple-choice profile, or a function of the user's own."""

from __future__ import annotations

import inspect
from typing import cast

from videorl.config.imports import import_function
from videorl.config.schema import RewardConfig
from videorl.errors import UserError
from videorl.rewards.reward import MultipleChoice, Reward


def load_reward(config: RewardConfig) -> Reward:
    """The function behind `reward.name`.

    Raises:
        UserError: no such profile, or the import path does not lead to a function of (question, completion, *, thinks).
    """
    if config.name in ("letter", "vero"):
        return MultipleChoice(config.name, config.format_weight, config.min_think_chars)
    if ":" not in config.name:
        raise UserError(f"reward.name = {config.name!r}: known are letter and vero; your own is module:function")
    function = import_function(config.name, "reward.name")
    try:
        inspect.signature(function).bind(object(), "", thinks=False)
    except TypeError as error:
        raise UserError(
            f"reward.name = {config.name!r}: it must take (question, completion, *, thinks): {error}"
        ) from None
    return cast(Reward, function)
