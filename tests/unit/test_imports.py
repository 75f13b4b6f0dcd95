"""Imports run one way, and heavy libraries stay where they belong. Read from the source, whoever runs it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"

# A package may import from itself and from those that stand before it.
ORDER = [
    "types",
    "errors",
    "config",
    "monitor",
    "data",
    "rewards",
    "algo",
    "batching",
    "model",
    "rollout",
    "train",
    "orchestration",
    "eval",
    "export",
    "cluster",
    "playground",
    "cli",
]
RANK = {package: rank for rank, package in enumerate(ORDER)}
MODULES = sorted(SRC.rglob("*.py"))


def package_of(module: Path) -> str:
    return module.relative_to(SRC / "videorl").parts[0].removesuffix(".py")


@cache
def imported(module: Path) -> tuple[str, ...]:
    """Every module that `module` imports, wherever in the file, under `if TYPE_CHECKING` too."""
    return tuple(_imports(module))


def _imports(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{name.name}" for name in node.names)


def importers_of(library: str) -> set[str]:
    return {
        module.relative_to(SRC / "videorl").as_posix()
        for module in MODULES
        if any(name == library or name.startswith(f"{library}.") for name in imported(module))
    }


def test_every_package_has_its_place() -> None:
    packages = {package_of(module) for module in MODULES} - {"__init__"}
    assert packages <= RANK.keys()


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(SRC).as_posix())
def test_a_module_imports_only_from_packages_before_its_own(module: Path) -> None:
    own = package_of(module)
    if own == "__init__":
        return
    for name in imported(module):
        if not name.startswith("videorl."):
            continue
        other = name.split(".")[1]
        assert other == own or RANK[other] < RANK[own], f"{own} imports {name}"


def test_only_cluster_imports_ray() -> None:
    assert {path.split("/")[0] for path in importers_of("ray")} <= {"cluster"}


def test_only_the_vllm_files_of_rollout_import_vllm() -> None:
    assert all(path.startswith("rollout/vllm_") for path in importers_of("vllm"))


def test_algorithms_and_rewards_know_no_cluster_and_no_engine() -> None:
    for library in ("ray", "vllm", "torch.distributed"):
        assert not {path for path in importers_of(library) if path.startswith(("algo/", "rewards/"))}, library


def test_rewards_are_pure_python() -> None:
    for library in ("torch", "numpy", "transformers"):
        assert not {path for path in importers_of(library) if path.startswith("rewards/")}, library


def test_the_walk_sees_imports_inside_functions_and_of_names() -> None:
    # Without this the assertions above could pass on nothing.
    assert "cli/train.py" in importers_of("videorl.cluster.run")
    assert any(path.startswith("rollout/vllm_") for path in importers_of("vllm"))
    assert "rewards/load.py" in importers_of("videorl.config.imports")
