"""A demo that was begun goes on under its own seed only."""

from pathlib import Path

import pytest
import tomli_w

from videorl.errors import UserError
from videorl.playground import preset
from videorl.playground.demo import run_demo


def test_a_demo_begun_with_another_seed_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "demo.toml").write_text(tomli_w.dumps(preset.grpo(tmp_path / "playground", tmp_path / "run", seed=3)))
    with pytest.raises(UserError, match="was begun with seed 3: go on with --seed 3"):
        run_demo(tmp_path, seed=4)
    assert [path.name for path in tmp_path.iterdir()] == ["demo.toml"]
