"""Gathered reads: several tasks share one statement for reads of the same kind."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy import Executable

from app.kernel.db.reads import Reads, RememberedReads
from app.kernel.function_types import Run
from app.kernel.sql import OF_SEVERAL

K = TypeVar("K")
V = TypeVar("V")
Params = Mapping[str, object]
Task = Callable[[Reads], V]
"""Reads and computes; may run several times."""


class _UnreadError(Exception):
    """A task needs rows that are not remembered."""


class _Noted:
    """Reads that return remembered rows, and record missing reads by statement."""

    def __init__(self, known: RememberedReads) -> None:
        self._known = known
        self.wanted = defaultdict[Executable, list[Params]](list)

    def fetch(self, statement: Executable, params: Params | None = None) -> Sequence[Any]:
        given = params or {}
        if not self._known.has(statement, given):
            if given not in self.wanted[statement]:
                self.wanted[statement].append(given)
            raise _UnreadError
        return self._known.fetch(statement, given)


class _InTime:
    """Reads that are refused once the time is over; remembered rows are returned at any time."""

    def __init__(self, known: RememberedReads, may_go_on: Run[bool]) -> None:
        self._known = known
        self._may_go_on = may_go_on

    def fetch(self, statement: Executable, params: Params | None = None) -> Sequence[Any]:
        if not self._known.has(statement, params or {}) and not self._may_go_on():
            raise _UnreadError
        return self._known.fetch(statement, params)


def run_gathered(
    known: RememberedReads,
    tasks: Mapping[K, Task[V]],
    *,
    order: Sequence[Executable],
    may_go_on: Run[bool],
    apart: bool,
) -> dict[K, V]:
    """Return the results of tasks that only read and compute.

    A task starts again after each of its reads, with all rows that were read until then. The first statement of `order`
    is read first, so that the tasks reach the next statement together. With `apart`, tasks share no statements, so they
    run one after the other. Once `may_go_on` returns False, nothing is read; tasks that need more have no result.
    """
    if apart:
        return _finished(tasks, _InTime(known, may_go_on))
    found, left = dict[K, V](), dict(tasks)
    while left:
        noted = _Noted(known)
        found |= _finished(left, noted)
        left = {key: task for key, task in left.items() if key not in found}
        if not left or not may_go_on():
            break
        places = {statement: place for place, statement in enumerate(order)}
        statement = min(noted.wanted, key=lambda each: places.get(each, len(places)))
        wanted = noted.wanted[statement]
        for params, rows in zip(wanted, read_several(known.reads, statement, wanted, apart=False), strict=True):
            known.learn(statement, params, rows)
    return {key: found[key] for key in tasks if key in found}


def _finished(tasks: Mapping[K, Task[V]], reads: Reads) -> dict[K, V]:
    found = dict[K, V]()
    for key, task in tasks.items():
        with suppress(_UnreadError):
            found[key] = task(reads)
    return found


def read_several(
    reads: Reads, statement: Executable, wanted: Sequence[Params], *, apart: bool
) -> Sequence[Sequence[Any]]:
    """Return the rows of a statement for each of several parameters, by one statement if it has a form for several.

    Parameters that differ in more than the arrays of the form, such as a LIMIT, are read apart. On CockroachDB all are:
    it turns a lateral subquery with LIMIT into a join with every row.
    """
    if apart or len(wanted) == 1 or statement not in OF_SEVERAL:
        return [reads.fetch(statement, params) for params in wanted]
    of_several, types = OF_SEVERAL[statement]
    found: list[list[Any]] = [[] for _ in wanted]
    alike = defaultdict[str, list[int]](list)
    for nth, params in enumerate(wanted):
        alike[repr(sorted(item for item in params.items() if item[0] not in types))].append(nth)
    for places in alike.values():
        arrays = {name: [wanted[nth][name] for nth in places] for name in types}
        for row in reads.fetch(of_several, {**wanted[places[0]], **arrays, "nth": places}):
            found[row.nth].append(row)
    return found
