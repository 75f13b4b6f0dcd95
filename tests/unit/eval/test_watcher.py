"""The watcher over a run directory that grows, is pruned, and ends; the evaluation is scripted."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from builders_eval import prediction
from videorl.errors import UserError, VideorlError
from videorl.eval.report import build_report, report_benchmark
from videorl.eval.report_file import write_report
from videorl.eval.run_folder import Keeper, RunFolder, find_model
from videorl.eval.trajectory import choose_keeper, read_trajectory, render_trajectory
from videorl.eval.watcher import Watcher, pin

RIGHT = {0: 3, 20: 5, 40: 8, 60: 8, 65: 1}  # rows of ten that each step answers rightly


class Run:
    """A run directory as training leaves it."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        path.mkdir()
        (path / "config.toml").write_text("")
        self.state("running")

    def state(self, state: str) -> None:
        (self.folder.path / "status.json").write_text(json.dumps({"state": state}))

    def checkpoint(self, step: int) -> None:
        hf = self.folder.model(step)
        hf.mkdir(parents=True)
        (hf / "config.json").write_text("{}")
        (hf / "model.safetensors").write_bytes(f"weights of {step}".encode())
        (hf.parent / "COMPLETE").touch()

    def delete(self, step: int) -> None:
        shutil.rmtree(self.folder.model(step).parent)


class Evaluations:
    """Writes a report for each model that it is given."""

    def __init__(self) -> None:
        self.models: list[tuple[int, str]] = []
        self.complete = True

    async def __call__(self, model: Path, out: Path) -> bool:
        step = int(out.name.removeprefix("step-"))
        weights = model / "model.safetensors"
        self.models.append((step, weights.read_text() if weights.exists() else "base"))
        self.write(out, RIGHT[step], self.complete)
        await asyncio.sleep(0)
        return self.complete

    @staticmethod
    def write(out: Path, right: int, complete: bool = True) -> None:
        rows = [prediction(i, "B" if i < right else "A") for i in range(10)]
        out.mkdir(parents=True, exist_ok=True)
        report = build_report("m", "k", "w", {}, {"made": report_benchmark(rows)}, {}, finished=complete)
        write_report(report, out)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "run")


def watcher(run: Run, evaluate: Evaluations, tmp_path: Path, said: list[str] | None = None, **other: float) -> Watcher:
    say = (said if said is not None else []).append
    return Watcher(run.folder, 20, tmp_path / "base", evaluate, say, other.get("patience", 60.0))


async def test_base_due_steps_and_the_last_one_are_evaluated_once(run: Run, tmp_path: Path) -> None:
    for step in (10, 20, 30, 40, 60, 65):
        run.checkpoint(step)
    run.state("finished")
    evaluate = Evaluations()
    await watcher(run, evaluate, tmp_path).watch()
    expected = [(0, "base"), *((step, f"weights of {step}") for step in (20, 40, 60, 65))]
    assert evaluate.models == expected


async def test_the_keeper_is_the_best_step_and_the_earliest_of_equals(run: Run, tmp_path: Path) -> None:
    for step in (20, 40, 60):
        run.checkpoint(step)
    run.state("finished")
    await watcher(run, Evaluations(), tmp_path).watch()
    assert run.folder.keeper() == Keeper(40, 0.8, "the benchmarks' macro mean", 0.8)
    tree = json.loads((run.folder.evaluations / "keeper.json").read_text())
    assert (tree["step"], tree["macro_mean"]) == (40, 0.8)
    assert "40 (keeper)" in (run.folder.evaluations / "trajectory.md").read_text()
    assert (run.folder.evaluations / "trajectory.png").read_bytes().startswith(b"\x89PNG")
    points = json.loads((run.folder.evaluations / "trajectory.json").read_text())["points"]
    assert [(p["step"], p["macro_mean"]) for p in points] == [(0, 0.3), (20, 0.5), (40, 0.8), (60, 0.8)]


async def test_checkpoints_are_evaluated_as_they_complete(run: Run, tmp_path: Path) -> None:
    evaluate = Evaluations()
    watching = asyncio.create_task(watcher(run, evaluate, tmp_path).watch())
    while not evaluate.models:
        await asyncio.sleep(0.01)
    assert evaluate.models == [(0, "base")]
    run.checkpoint(20)
    run.state("finished")
    await asyncio.wait_for(watching, 20)
    assert evaluate.models[-1] == (20, "weights of 20")


async def test_a_checkpoint_deleted_during_its_evaluation_is_still_evaluated_and_kept_if_best(
    run: Run, tmp_path: Path
) -> None:
    run.checkpoint(20)
    run.state("finished")

    class Deleting(Evaluations):
        async def __call__(self, model: Path, out: Path) -> bool:
            if out.name == "step-000020":
                run.delete(20)
            return await super().__call__(model, out)

    evaluate = Deleting()
    await watcher(run, evaluate, tmp_path).watch()
    assert evaluate.models[-1] == (20, "weights of 20")
    kept = find_model(f"{run.folder.path}@keeper")
    assert (kept.folder / "model.safetensors").read_text() == "weights of 20"


async def test_only_the_keeper_stays_pinned(run: Run, tmp_path: Path) -> None:
    for step in (20, 40, 60):
        run.checkpoint(step)
    run.state("finished")
    await watcher(run, Evaluations(), tmp_path).watch()
    assert [path.parent.name for path in run.folder.evaluations.glob("*/model")] == ["step-000040"]


async def test_a_checkpoint_deleted_before_its_turn_is_passed_over_and_said(run: Run, tmp_path: Path) -> None:
    run.checkpoint(20)
    run.state("finished")
    shutil.rmtree(run.folder.model(20))
    said: list[str] = []
    evaluate = Evaluations()
    await watcher(run, evaluate, tmp_path, said).watch()
    assert evaluate.models == [(0, "base")]
    assert "step 20: its checkpoint was deleted before it could be evaluated" in said


async def test_a_watcher_that_starts_again_goes_on(run: Run, tmp_path: Path) -> None:
    run.checkpoint(20)
    run.state("finished")
    await watcher(run, Evaluations(), tmp_path).watch()
    run.checkpoint(40)
    run.delete(20)
    await watcher(run, Evaluations(), tmp_path).watch()
    assert [p.step for p in read_trajectory(run.folder)] == [0, 20, 40]
    assert run.folder.keeper().step == 40  # type: ignore[union-attr]


async def test_a_run_without_life_ends_the_watch(run: Run, tmp_path: Path) -> None:
    with pytest.raises(VideorlError, match="no life"):
        await watcher(run, Evaluations(), tmp_path, patience=0.0).watch()


async def test_an_incomplete_evaluation_ends_the_watch_with_an_error(run: Run, tmp_path: Path) -> None:
    run.state("finished")
    evaluate = Evaluations()
    evaluate.complete = False
    with pytest.raises(VideorlError, match=r"incomplete evaluations: steps \[0\]"):
        await watcher(run, evaluate, tmp_path).watch()


def test_a_validation_file_chooses_the_keeper_where_one_is_given(run: Run) -> None:
    for step, on_benchmarks, on_validation in ((20, 8, 3), (40, 5, 9)):
        Evaluations.write(run.folder.evaluation(step), on_benchmarks)
        Evaluations.write(run.folder.evaluation(step) / "validation", on_validation)
    points = read_trajectory(run.folder, validated=True)
    assert choose_keeper(points, "held=v.json") == Keeper(40, 0.5, "held=v.json", 0.9)
    assert choose_keeper(points, None).step == 20  # type: ignore[union-attr]
    assert "chosen on held=v.json (0.9000)" in render_trajectory(points, choose_keeper(points, "held=v.json"))


def test_a_pin_costs_no_space_and_outlives_its_model(run: Run, tmp_path: Path) -> None:
    run.checkpoint(20)
    source = run.folder.model(20) / "model.safetensors"
    pinned = pin(run.folder.model(20), tmp_path / "pin") / "model.safetensors"
    assert pinned.stat().st_ino == source.stat().st_ino
    run.delete(20)
    assert pinned.read_text() == "weights of 20"


def test_models_are_named_by_folder_run_step_or_keeper(run: Run) -> None:
    for step in (20, 40):
        run.checkpoint(step)
    path = run.folder.path
    assert find_model(str(path)).step == 40
    assert find_model(f"{path}@20").folder == run.folder.model(20)
    assert find_model(str(run.folder.model(20))).step == 20
    assert find_model(str(run.folder.model(20).parent)).config_file == (path / "config.toml").resolve()
    for wrong, message in (("@30", "there are 20, 40"), ("@keeper", "no keeper yet"), ("/nowhere", "neither")):
        with pytest.raises(UserError, match=message):
            find_model(f"{path}{wrong}")
