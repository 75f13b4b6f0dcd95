"""TOML files, layers and overrides become a Config; every mistake is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videorl.config import Config, dump_toml, load_config
from videorl.config.load import all_keys
from videorl.errors import UserError

CONFIGS = Path(__file__).parents[3] / "configs"
MINIMAL = '[model]\npath = "m"\n[data]\ntrain = ["d.parquet"]\n[trainer]\ntoken_budget = 40_000\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(MINIMAL)
    return path


@pytest.mark.parametrize("preset", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_preset_loads_and_survives_being_written_and_read_again(preset: Path, tmp_path: Path) -> None:
    config = load_config(preset)
    saved = tmp_path / "elsewhere" / "config.toml"
    saved.parent.mkdir()
    saved.write_text(dump_toml(config))
    assert load_config(saved) == config


def test_an_override_replaces_one_value_and_keeps_its_neighbours(file: Path) -> None:
    config = load_config(file, ["trainer.lr=3e-5", "async.staleness=0", "run.dir=out/x", "monitor.trackers=['wandb']"])
    assert config.trainer.lr == 3e-5
    assert config.trainer.token_budget == 40_000
    assert config.async_.staleness == 0
    assert config.run.dir == Path.cwd() / "out" / "x"
    assert config.monitor.trackers == ("wandb",)


def test_later_overrides_win(file: Path) -> None:
    assert load_config(file, ["run.seed=1", "run.seed=2"]).run.seed == 2


def test_a_file_extends_another_section_by_section(tmp_path: Path, file: Path) -> None:
    (tmp_path / "deep").mkdir()
    top = tmp_path / "deep" / "top.toml"
    top.write_text('extends = "../run.toml"\n[trainer]\nlr = 1e-5\n[data]\ntrain = ["own.parquet"]\n')
    config = load_config(top)
    assert config.trainer.lr == 1e-5
    assert config.trainer.token_budget == 40_000
    # Paths are relative to the file that names them.
    assert config.model.path == tmp_path / "m"
    assert config.data.train == (tmp_path / "deep" / "own.parquet",)


def test_a_file_that_extends_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('extends = "b.toml"\n')
    (tmp_path / "b.toml").write_text('extends = "a.toml"\n')
    with pytest.raises(UserError, match="extends itself"):
        load_config(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("trainer.lrr=1", r"unknown key trainer\.lrr; did you mean trainer\.lr\?"),
        ("trainer.group_size=4", r"unknown key trainer\.group_size; did you mean algo\.group_size\?"),
        ("trainr.lr=1", r"unknown key trainr; did you mean trainer\?"),
        ("trainer.lr=fast", r"trainer\.lr = 'fast'"),
        ("trainer.lr=-1", r"trainer\.lr = -1: .*greater than 0"),
        ("data.max_frames=7", r"data\.max_frames = 7: .*multiple of 2"),
        ("rollout.top_p=0.9", r"rollout\.top_p = 0\.9: fixed at 1: .* without standing in the trainer's softmax$"),
        ("rollout.top_k=5", r"rollout\.top_k = 5: fixed at -1 \(off\): .* without standing in the trainer's softmax$"),
        ("rollout.min_tokens=1", r"rollout\.min_tokens = 1: fixed at 0: .* without standing in the trainer's softmax$"),
        ("algo.clip_low=1.5", r"algo\.clip_low = 1\.5: .*less than or equal to 1"),
        ("run.max_steps=true", r"run\.max_steps = True: true and false are no numbers; write a whole number$"),
        ("trainer.lr=true", r"trainer\.lr = True: true and false are no numbers; write a number$"),
        (
            "trainer.betas=[true, 0.9]",
            r"trainer\.betas = \[True, 0\.9\]: true and false are no numbers; write a number$",
        ),
        ("reward.format_weight=1.5", r"reward\.format_weight = 1\.5"),
        ("model.attention=flash", r"model\.attention = 'flash'"),
        ("async.staleness=3", r"raise async\.max_lag to 3 or lower async\.staleness"),
        ("rollout.tensor_parallel=2", r"no multiple of rollout\.tensor_parallel 2"),
        ("cluster.trainer_ranks=8", r"need 9 devices, but 1 x 8 are 8"),
        ("trainer.token_budget=1000", r"cannot hold one prompt and one response"),
        ("lr=3", r"write key\.sub=value"),
        ("trainer.lr", r"write key\.sub=value"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_would_be_right(file: Path, override: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        load_config(file, [override])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[model", "not valid TOML"),
        ("[model]\npath = 'm'\n", "data is missing"),
        ("[data]\ntrain = []\n[model]\npath = 'm'\n", "data.train"),
        ("extends = 'gone.toml'", "gone.toml: no such config file"),
        ("extends = 3", "extends takes one file name"),
        ("extends = 'circle.toml'", "circle.toml: cannot be read: "),
        (r'extends = "a\u0000b"', "cannot be read: embedded null"),
        ("run.seed = " + "9" * 5_000, "faulty.toml: not valid TOML"),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "faulty.toml"
    path.write_text(text)
    (tmp_path / "circle.toml").symlink_to("circle.toml")
    with pytest.raises(UserError, match=said):
        load_config(path)


def test_no_number_of_the_config_takes_a_truth_value(file: Path) -> None:
    tree = load_config(file).model_dump(by_alias=True)
    numbers = [(s, k) for s, keys in tree.items() for k, value in keys.items() if type(value) in (int, float)]
    assert len(numbers) > 50
    for section, key in numbers:
        with pytest.raises(UserError, match=f"{section}.{key} = True: true and false are no numbers"):
            load_config(file, [f"{section}.{key}=true"])


def test_every_key_is_documented() -> None:
    keys = set(all_keys())
    assert {"trainer.lr", "async.staleness", "run.dir"} <= keys
    for name, section in Config.model_fields.items():
        assert section.annotation is not None
        undocumented = [k for k, field in section.annotation.model_fields.items() if not field.description]
        assert not undocumented, f"{name}: {undocumented}"


@given(
    staleness=st.floats(0, 2, allow_nan=False),
    prompts=st.integers(1, 64),
    updates=st.integers(1, 8),
)
def test_outstanding_groups_are_the_floor_of_the_formula(staleness: float, prompts: int, updates: int) -> None:
    tree = {
        "model": {"path": "m"},
        "data": {"train": ["d"]},
        "trainer": {"prompts_per_update": prompts, "updates_per_step": updates, "token_budget": 40_000},
        "async": {"staleness": staleness},
    }
    config = Config.model_validate(tree)
    exact = (1 + staleness) * prompts * updates
    assert config.groups_per_step == prompts * updates
    assert exact - 1 < config.max_outstanding <= exact + 1e-6


@pytest.mark.parametrize("override", ["run.dir=5", "run.dir=[1]", "trainer.lr=inf", "algo.dual_clip=inf"])
def test_what_is_no_path_and_no_number_is_refused(override: str, file: Path) -> None:
    key = override.partition("=")[0]
    with pytest.raises(UserError, match=f"{key} = .*: (not a path|input should be a finite number)"):
        load_config(file, [override])


def test_a_file_that_is_nested_too_deeply_is_named(file: Path) -> None:
    file.write_text("a = " + "[" * 3_000 + "]" * 3_000)
    with pytest.raises(UserError, match=r"run\.toml: not valid TOML"):
        load_config(file)


def test_a_file_that_begins_with_a_byte_order_mark_is_read(file: Path) -> None:
    file.write_text(MINIMAL, encoding="utf-8-sig")
    assert load_config(file).trainer.token_budget == 40_000


def test_an_override_of_two_lines_loses_none_of_them_silently(file: Path) -> None:
    with pytest.raises(UserError, match="holds more than one line"):
        load_config(file, ["run.seed=1\ntrainer.lr=1"])


@pytest.mark.parametrize("override", ["run.seed=" + "9" * 100_000, "run.seed=" + "x" * 100_000, "x" * 100_000])
def test_a_long_value_does_not_hide_what_is_wrong_with_it(override: str, file: Path) -> None:
    with pytest.raises(UserError) as raised:
        load_config(file, [override])
    assert len(str(raised.value)) < 1_000


@pytest.mark.parametrize(
    "key", ["data.decode_timeout", "rollout.request_timeout", "rollout.start_timeout", "trainer.update_timeout"]
)
def test_a_wait_that_no_clock_can_hold_is_refused(key: str, file: Path) -> None:
    with pytest.raises(UserError, match=f"{key} = 1e\\+30: input should be less than or equal to 31536000"):
        load_config(file, [f"{key}=1e30"])
