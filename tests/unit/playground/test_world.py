"""A playground as files: the same bytes for a seed, readable by the adapters, held-out clips apart."""

import hashlib
from pathlib import Path

import pytest

from videorl.data.questions import read_questions
from videorl.errors import UserError
from videorl.eval.benchmarks import load_benchmark
from videorl.playground.world import BENCHMARKS, benchmark_path, make_playground
from videorl.types import Question


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_playground(tmp_path_factory.mktemp("playground"), seed=3, questions_per_family=4, held_out=12)


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def kept(files: list[Path], root: Path) -> list[Question]:
    outcomes = [row.outcome for row in read_questions(files, media_root=root)]
    assert all(isinstance(outcome, Question) for outcome in outcomes), outcomes
    return [outcome for outcome in outcomes if isinstance(outcome, Question)]


def test_the_same_seed_gives_the_same_bytes(playground: Path, tmp_path: Path) -> None:
    again = make_playground(tmp_path, seed=3, questions_per_family=4, held_out=12)
    assert digests(again) == digests(playground)


def test_a_manifest_that_was_cut_off_is_that_of_no_playground(playground: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"seed": 3, "quest')
    assert digests(make_playground(tmp_path, 3, questions_per_family=4, held_out=12)) == digests(playground)


def test_a_file_in_the_place_of_a_playground_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file: cannot be written: "):
        make_playground(tmp_path / "file")


def test_another_seed_gives_other_clips_and_questions(playground: Path, tmp_path: Path) -> None:
    other = digests(make_playground(tmp_path, seed=4, questions_per_family=4, held_out=12))
    own = digests(playground)
    assert {name for name in own if name.endswith(".mp4") and own[name] == other[name]} == set()
    assert own["train-order.parquet"] != other["train-order.parquet"]


def test_no_two_clips_are_alike_so_the_benchmarks_are_held_out(playground: Path) -> None:
    clips = [path.read_bytes() for path in (playground / "videos").glob("*.mp4")]
    assert len(clips) == 5 * 4 + 3 * 12
    assert len(set(clips)) == len(clips)


def test_a_whole_playground_is_left_alone_and_another_recipe_replaces_it(tmp_path: Path) -> None:
    def make(per_family: int) -> Path:
        return make_playground(tmp_path, seed=0, questions_per_family=per_family, held_out=3)

    clip = make(1) / "videos" / "train-colour-00000.mp4"
    clip.write_bytes(b"edited")
    make(1)
    assert clip.read_bytes() == b"edited"
    make(2)
    assert clip.read_bytes() != b"edited"


def test_an_interrupted_playground_is_made_again(tmp_path: Path) -> None:
    make_playground(tmp_path, seed=0, questions_per_family=1, held_out=3)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "train-count.parquet").unlink()
    make_playground(tmp_path, seed=0, questions_per_family=1, held_out=3)
    assert (tmp_path / "train-count.parquet").is_file()


def test_verl_and_video_r1_files_hold_the_same_questions(playground: Path) -> None:
    verl = kept(sorted(playground.glob("train-*.parquet")), playground)
    video_r1 = kept([playground / "train-video-r1.json"], playground)
    facts = [(q.text, q.options, q.answer, q.media[0].path) for q in verl]
    assert sorted(facts) == sorted((q.text, q.options, q.answer, q.media[0].path) for q in video_r1)
    assert all(Path(q.media[0].path).is_file() for q in verl)


@pytest.mark.parametrize(("index", "format_name"), [(0, "video-mme"), (1, "perceptioncomp"), (2, "video-holmes")])
def test_every_benchmark_row_is_read_in_its_native_format(playground: Path, index: int, format_name: str) -> None:
    spec = BENCHMARKS[index]
    benchmark = load_benchmark(spec.name, benchmark_path(playground, spec), media_root=playground)
    assert benchmark.format == format_name
    assert len(benchmark.questions) == 12
    assert not benchmark.unreadable
    assert {len(q.options) for q in benchmark.questions} == {spec.options}
    assert all(Path(q.media[0].path).is_file() for q in benchmark.questions)
