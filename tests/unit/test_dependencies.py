"""Declared dependencies are exactly the imported packages, for each part that is installed separately."""

import sys
import tomllib
from collections.abc import Collection, Iterable
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.parts import OPTIONAL, PACKAGES, PARTS, imports_of, modules_of

ROOT = Path(__file__).parents[2]
OWN = {*PACKAGES, "benchmarks", "client", "receiver", "suite_broker", "suite_common", "tests"} | {
    "task_executor_client",
    "task_executor_dramatiq",
    "task_executor_receiver",
}
# Loaded without an import: SQLAlchemy finds its dialect by name, and zoneinfo finds tzdata.
UNIMPORTED = {"sqlalchemy-cockroachdb", "tzdata"}
distributions = cache(packages_distributions)
"""Return the distributions of each package; reads all installed distributions."""


def declared(folder: str, *extras: str) -> set[str]:
    """Return the distributions that a pyproject.toml declares, including some extras."""
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    waiting, found = [*project["dependencies"]], set()
    waiting += [line for extra in extras for line in project["optional-dependencies"][extra]]
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name == project["name"]:
            waiting += [line for extra in requirement.extras for line in project["optional-dependencies"][extra]]
        else:
            found.add(canonicalize_name(requirement.name))
    return found


def undeclared(modules: Iterable[str], names: Collection[str]) -> set[str]:
    """Return the third-party packages among modules that belong to none of these distributions."""
    packages = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - OWN
    known = distributions()
    return {package for package in packages if not names & {canonicalize_name(each) for each in known[package]}}


def unused(modules: Iterable[str], names: Iterable[str]) -> set[str]:
    """Return the distributions from which no module is imported."""
    packages = {module.partition(".")[0] for module in modules}
    return set(names) - {canonicalize_name(each) for package in packages for each in distributions().get(package, ())}


def imported_by(graph: grimp.ImportGraph, *packages: str) -> set[str]:
    """Return the modules that packages import directly."""
    own = {module for package in packages for module in (package, *graph.find_descendants(package))}
    return {found for module in own for found in graph.find_modules_directly_imported_by(module)}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return imports_of(*PACKAGES)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_declares_exactly_its_imports(part: str, graph: grimp.ImportGraph) -> None:
    modules = modules_of(part, graph)
    assert undeclared(modules, declared("", part)) == set()
    assert unused(modules, declared("", part) - declared("")) == set()


def test_all_parts_together_declare_exactly_their_imports(graph: grimp.ImportGraph) -> None:
    everything = set().union(*(modules_of(part, graph) for part in PARTS))
    assert unused(everything, declared("")) == UNIMPORTED
    optional = {found for module in OPTIONAL for found in graph.find_modules_directly_imported_by(module)}
    assert undeclared(optional, declared("", "all", "traces")) == set()
    assert undeclared(imported_by(graph, "app.dev"), declared("", "verify")) == set()
    stack = imported_by(graph, "app.dev.process", "app.dev.servers", "app.dev.stack.runner", "app.dev.testing")
    assert undeclared(stack, declared("", "testing")) == set()


def test_tests_and_benchmarks_declare_their_imports() -> None:
    graph = imports_of("tests", "benchmarks")
    # The benchmarked peers have their own environment, benchmarks/requirements.txt, and test_neighbours makes its own.
    peers = ("benchmarks.peers", *graph.find_descendants("benchmarks.peers"))
    for module in (*peers, "tests.acceptance.actors.abort_tasks", "tests.acceptance.actors.test_neighbours"):
        graph.remove_module(module)
    assert undeclared(imported_by(graph, "tests", "benchmarks"), declared("", "dev")) == set()


def test_other_packages_declare_exactly_their_imports() -> None:
    graph = imports_of("task_executor_client", "task_executor_dramatiq", "task_executor_receiver")
    for folder, package, extras in (
        ("client", "client", ["async", "testing"]),
        ("actor_kit", "dramatiq", ["django", "postgresql", "psycopg2"]),
        ("receiver", "receiver", ["django", "fastapi", "flask", "redis", "sqlalchemy"]),
    ):
        modules = imported_by(graph, f"task_executor_{package}")
        assert undeclared(modules, declared(folder, *extras)) == set()
        # The client starts the service as a program.
        assert unused(modules, declared(folder, *extras)) <= {"task-executor"}
