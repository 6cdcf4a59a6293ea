"""Schedulers that run the same chore concurrently, at each isolation level, with and without row locks."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TypeVar

import pytest
from sqlalchemy import text

from app.kernel import db
from app.kernel.db import Database
from app.scheduler.chore import Counts

T = TypeVar("T")

SERIALIZABLE = "options=-c%20default_transaction_isolation%3Dserializable"
_SKIP_LOCKED = re.compile(r"FOR (NO KEY )?UPDATE SKIP LOCKED")
WAYS = ["read committed", "serializable", "read committed without locks", "serializable without locks"]


@contextmanager
def schedulers(url: str, way: str, count: int = 2) -> Iterator[list[Database]]:
    """Open a database per scheduler at the isolation level of `way`, which is one of WAYS."""
    if way.startswith("serializable"):
        url += f"{'&' if '?' in url else '?'}{SERIALIZABLE}"
    databases = [db.connect(url, pool_size=2, application_name=f"te-test-{n}") for n in range(count)]
    for database in databases:
        (level,) = database.fetch(text("SHOW transaction_isolation"))[0]
        assert way.startswith(level)
    yield databases
    for database in databases:
        database.close()


def strip_locks(monkeypatch: pytest.MonkeyPatch, way: str, module: ModuleType, *names: str) -> None:
    """Remove the lock clause from statements in the ways without locks: correctness must not depend on a row lock."""
    for name in names:
        sql: str = getattr(module, name).text
        if way.endswith("without locks"):
            stripped = _SKIP_LOCKED.sub("", sql)
            assert stripped != sql
            monkeypatch.setattr(module, name, text(stripped))


class Hints:
    """Recorder of the hints that a chore sends."""

    def __init__(self) -> None:
        self.queues: list[str] = []

    def __call__(self, queue: str) -> None:
        self.queues.append(queue)


def never() -> bool:
    """Return False: no stop is requested."""
    return False


def total(counts: Sequence[Counts], name: str) -> int:
    """Return the sum of one count over several runs."""
    return sum(each[name] for each in counts)
