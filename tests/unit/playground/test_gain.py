"""What a training gained, by benchmark and family."""

from dataclasses import replace
from pathlib import Path

import pytest

from builders_eval import prediction
from videorl.eval.benchmarks import load_benchmark
from videorl.eval.report import Report, build_report, report_benchmark
from videorl.playground.gain import by_family, gain_table
from videorl.playground.world import BENCHMARKS, HeldOut, benchmark_path, make_playground

FIELDS = {"video-mme": "sub_category", "perceptioncomp": "category", "video-holmes": "question_type"}


def report(right: dict[str, int]) -> Report:
    """Ten questions of each family in each benchmark, `right[family]` of them right; four in ten without the video."""
    columns, blind = {}, {}
    for name, field in FIELDS.items():
        rows = [
            replace(prediction(i, "B" if i < count else "A", benchmark=name), categories={field: family})
            for family, count in right.items()
            for i in range(10)
        ]
        columns[name] = report_benchmark(rows)
        blind[name] = report_benchmark([prediction(i, "B" if i < 4 else "A", benchmark=name) for i in range(10)])
    return build_report("m", "k", "w", {}, columns, {"blind": blind})


def test_a_family_is_counted_over_every_benchmark_that_asks_it() -> None:
    assert by_family(report({"colour": 3, "order": 10})) == pytest.approx({"colour": 0.3, "order": 1.0})


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_every_row_of_a_playgrounds_benchmark_counts_for_its_family(benchmark: HeldOut, tmp_path: Path) -> None:
    world = make_playground(tmp_path, questions_per_family=1, held_out=10)
    loaded = load_benchmark(benchmark.name, benchmark_path(world, benchmark), media_root=world)
    rows = [replace(prediction(i), categories=dict(q.categories)) for i, q in enumerate(loaded.questions)]
    found = by_family(build_report("m", "k", "w", {}, {benchmark.name: report_benchmark(rows)}, {}))
    assert found.keys() == set(benchmark.families)


def test_the_table_sets_every_number_beside_its_start() -> None:
    lines = gain_table(report({"colour": 3, "order": 5}), report({"colour": 9, "order": 4})).splitlines()
    assert "| **mean** | 0.400 | 0.650 | +0.250 |" in lines
    assert "| perceptioncomp | 0.400 | 0.650 | +0.250 |" in lines
    assert "| colour | 0.300 | 0.900 | +0.600 |" in lines
    assert "| order (several frames) | 0.500 | 0.400 | -0.100 |" in lines  # what got worse is shown
    assert "| mean, blind | 0.400 | 0.400 | +0.000 |" in lines
