"""Ids: ordered by time on PostgreSQL, spread over the key space on CockroachDB, unique in every process."""

import multiprocessing
import os
from collections.abc import Iterator
from itertools import count
from multiprocessing.connection import Connection

import pytest

from app.kernel import db, ids

POSTGRESQL = "postgresql://u:p@127.0.0.1:1/d"
COCKROACHDB = "cockroachdb://u:p@127.0.0.1:1/d"
MANY = 1000


@pytest.fixture(autouse=True)
def _restore_the_form_of_ids() -> Iterator[None]:
    yield
    ids.lead_with_time(True)


def open_database(url: str) -> None:
    db.connect(url, pool_size=1, application_name="te-test").close()


def new_ids() -> list[str]:
    return [ids.execution_id() for _ in range(MANY)]


@pytest.mark.parametrize(("url", "is_in_order"), [(POSTGRESQL, True), (COCKROACHDB, False)])
def test_opened_database_decides_whether_ids_are_in_order(
    url: str, is_in_order: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(1)
    monkeypatch.setattr("time.time_ns", lambda: next(clock))
    open_database(url)
    found = new_ids()
    assert (found == sorted(found)) is is_in_order
    assert {(name[:5], len(name)) for name in found} == {("exec_", 37)}


def _send_ids(connection: Connection) -> None:
    connection.send(new_ids())


@pytest.mark.parametrize("url", [POSTGRESQL, COCKROACHDB])
def test_forked_process_keeps_the_form_and_repeats_no_id(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still here: the worst case."""
    monkeypatch.setattr("time.time_ns", lambda: 1)
    open_database(url)
    before = new_ids()  # a part of the random bits that were read for them is left
    forking = multiprocessing.get_context("fork")
    parent_end, child_end = forking.Pipe()
    child = forking.Process(target=_send_ids, args=(child_end,))
    child.start()
    of_child = parent_end.recv()
    child.join()
    assert len({*before, *of_child, *new_ids()}) == 3 * MANY
    assert len({name[:21] for name in of_child}) == (1 if url == POSTGRESQL else MANY)


def test_ids_read_random_bits_of_the_kernel_for_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read releases the interpreter, and a busy thread gets it back milliseconds later."""
    reads, read = list[int](), os.urandom

    def counting(size: int) -> bytes:
        reads.append(size)
        return read(size)

    monkeypatch.setattr("os.urandom", counting)
    assert len(set(new_ids())) == MANY
    assert len(reads) <= MANY / 200
