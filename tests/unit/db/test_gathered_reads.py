"""Reads of several tasks: one statement for all that wait for the same table, in the order of the statements."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from sqlalchemy import Executable

from app.kernel import sql
from app.kernel.db.gathered_reads import run_gathered
from app.kernel.db.reads import Reads, RememberedReads

FIRST = sql.statement("test.first", "SELECT CAST(:key AS TEXT) AS value LIMIT :most")
SECOND = sql.statement("test.second", "SELECT CAST(:key AS TEXT) AS value")
APART = sql.statement("test.apart", "SELECT CAST(:key AS TEXT) AS value")
for each in (FIRST, SECOND):
    sql.read_together(each, key="TEXT")
NAMES = {sql.OF_SEVERAL[each][0]: each.name for each in (FIRST, SECOND)}
for name in ("test.first", "test.second", "test.apart", "test.first_of_several", "test.second_of_several"):
    del sql.REGISTRY[name]  # no statement of the product


class Row(NamedTuple):
    nth: int
    value: str


class Recorder:
    """Answers each read with its key, and records the statements with their keys."""

    def __init__(self) -> None:
        self.read: list[tuple[str, Any]] = []

    def fetch(self, statement: Executable, params: Mapping[str, object] | None = None) -> Sequence[Any]:
        given: Any = params or {}
        if statement in NAMES:
            self.read.append((NAMES[statement], tuple(given["key"])))
            return [Row(nth, key) for nth, key in zip(given["nth"], given["key"], strict=True) if key != "none"]
        self.read.append((getattr(statement, "name", ""), given["key"]))
        return [Row(0, given["key"])]


def values(reads: Reads, *wanted: tuple[Executable, Mapping[str, object]]) -> list[str]:
    return [row.value for statement, params in wanted for row in reads.fetch(statement, params)]


def one(key: str, most: int = 1) -> tuple[Executable, Mapping[str, object]]:
    return FIRST, {"key": key, "most": most}


def two(key: str) -> tuple[Executable, Mapping[str, object]]:
    return SECOND, {"key": key}


def run(
    tasks: Mapping[str, Sequence[tuple[Executable, Mapping[str, object]]]], *, reads: int = 99, apart: bool = False
) -> Any:
    """Return the results of tasks, and the statements that ran for them."""
    recorder, passed = Recorder(), count()
    found = run_gathered(
        RememberedReads(recorder),
        {name: lambda reads, wanted=wanted: values(reads, *wanted) for name, wanted in tasks.items()},
        order=[FIRST, SECOND],
        may_go_on=lambda: next(passed) < reads,
        apart=apart,
    )
    return found, recorder.read


def test_tasks_share_statements_and_wait_for_those_that_come_late() -> None:
    tasks = {"a": [two("x")], "b": [one("y"), two("z")], "c": [one("y"), one("w"), two("x")]}
    assert run(tasks) == (
        {"a": ["x"], "b": ["y", "z"], "c": ["y", "w", "x"]},
        [("test.first", "y"), ("test.first", "w"), ("test.second", ("x", "z"))],
    )


def test_reads_without_rows_and_with_other_bounds_are_told_apart() -> None:
    tasks = {"a": [one("x")], "b": [one("none")], "c": [one("x", 2)], "d": [one("y")]}
    assert run(tasks) == (
        {"a": ["x"], "b": [], "c": ["x"], "d": ["y"]},
        [("test.first", ("x", "none", "y")), ("test.first", ("x",))],
    )


def test_statement_without_a_second_form_runs_for_each() -> None:
    tasks = {name: [(APART, {"key": name})] for name in "ab"}
    assert run(tasks) == ({"a": ["a"], "b": ["b"]}, [("test.apart", "a"), ("test.apart", "b")])


def test_tasks_that_need_more_reads_after_the_time_have_no_result() -> None:
    tasks = {"a": [two("x")], "b": [], "c": [one("y")]}
    assert run(tasks, reads=0) == ({"b": []}, [])
    assert run(tasks, reads=1) == ({"b": [], "c": ["y"]}, [("test.first", "y")])
    assert run(tasks, reads=2) == ({"a": ["x"], "b": [], "c": ["y"]}, [("test.first", "y"), ("test.second", "x")])


def test_tasks_run_one_after_the_other_if_reads_run_apart() -> None:
    """So the first tasks have results when the time ends, and others whose rows are remembered."""
    tasks = {"a": [one("x"), two("x")], "b": [one("y"), two("y")], "c": [two("x")], "d": []}
    of_a = [("test.first", "x"), ("test.second", "x")]
    assert run(tasks, reads=1, apart=True) == ({"d": []}, of_a[:1])
    assert run(tasks, reads=2, apart=True) == ({"a": ["x", "x"], "c": ["x"], "d": []}, of_a)
    found, read = run(tasks, apart=True)
    assert list(found) == list("abcd")
    assert read == [*of_a, ("test.first", "y"), ("test.second", "y")]
