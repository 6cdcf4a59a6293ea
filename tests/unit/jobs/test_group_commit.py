"""Group commit: one of the threads that come at the same moment writes for all, and none of them is left behind."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from app.kernel.db import deadline
from app.kernel.errors import TimedOutError
from app.queue.jobs.group_commit import MAX_GROUP, GroupCommit
from tests.parked import parked
from tests.waiting import HUNG_SECONDS, eventually

BAD = "bad"


class Died(BaseException):
    """What no handler of errors catches."""


class Table:
    """What is written to: each write waits until it is let go, and says what it was given."""

    def __init__(self) -> None:
        self.writes: list[list[str]] = []
        self.began = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.dies = False

    def write(self, items: Sequence[str]) -> list[str | None]:
        """Answer each item with itself in capitals; nothing for one that is taken."""
        self.writes.append(list(items))
        self.began.release()
        assert self.may_end.acquire(timeout=HUNG_SECONDS)
        if self.dies:
            self.dies = False
            raise Died
        if BAD in items:
            raise ValueError("a bad item")
        return [None if item == "taken" else item.upper() for item in items]

    def let_go(self, writes: int = 1) -> None:
        """Let so many writes end."""
        self.may_end.release(writes)


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def group(table: Table) -> GroupCommit[str, str]:
    return GroupCommit(table.write)


Submit = Callable[..., Future[str | None]]


@pytest.fixture
def submit(group: GroupCommit[str, str]) -> Iterator[Submit]:
    """Write an item on a thread of its own."""
    with ThreadPoolExecutor(MAX_GROUP + 9) as pool:

        def submit(item: str, name: str = "g", seconds: float | None = None) -> Future[str | None]:
            def body() -> str | None:
                if seconds is not None:
                    deadline.begin(seconds)
                try:
                    return group.write(name, item)
                finally:
                    deadline.end()

            return pool.submit(body)

        yield submit


def gathered(table: Table, submit: Submit, items: Sequence[str], first: str = "first") -> list[Future[str | None]]:
    """Let the first write alone until the others wait."""
    futures = [submit(first)]
    assert table.began.acquire(timeout=HUNG_SECONDS)
    futures += [submit(item) for item in items]
    eventually(lambda: parked() == len(items))
    return futures


def results(futures: Sequence[Future[str | None]]) -> list[str | None]:
    return [future.result(HUNG_SECONDS) for future in futures]


def test_the_first_writes_alone_and_the_next_for_all_who_came(table: Table, submit: Submit) -> None:
    futures = gathered(table, submit, ["a", "taken", "b"])
    assert table.writes == [["first"]]
    table.let_go(2)
    assert results(futures) == ["FIRST", "A", None, "B"]
    assert [sorted(items) for items in table.writes] == [["first"], ["a", "b", "taken"]]


def test_groups_do_not_wait_for_each_other(table: Table, submit: Submit) -> None:
    one = submit("a", "one")
    assert table.began.acquire(timeout=HUNG_SECONDS)
    other = submit("b", "other")
    assert table.began.acquire(timeout=HUNG_SECONDS)
    table.let_go(2)
    assert results([one, other]) == ["A", "B"]


def test_a_group_has_a_bound(table: Table, submit: Submit) -> None:
    items = [f"i{number}" for number in range(MAX_GROUP + 1)]
    futures = gathered(table, submit, items)
    table.let_go(3)
    assert results(futures) == ["FIRST", *[item.upper() for item in items]]
    assert [len(written) for written in table.writes] == [1, MAX_GROUP, 1]


def test_what_fails_together_is_left_to_each(table: Table, submit: Submit) -> None:
    futures = gathered(table, submit, ["a", BAD, "b"])
    table.let_go(3)
    assert results(futures) == ["FIRST", None, None, None]
    assert submit("later").result(HUNG_SECONDS) == "LATER"


def test_what_fails_alone_is_the_writers_error(table: Table, submit: Submit) -> None:
    futures = gathered(table, submit, ["a", "b"], first=BAD)
    table.let_go(2)
    with pytest.raises(ValueError, match="a bad item"):
        futures[0].result(HUNG_SECONDS)
    assert results(futures[1:]) == ["A", "B"]


@pytest.mark.parametrize("dies", ["the first", "the next"])
def test_who_waits_goes_on_when_the_leader_dies(table: Table, submit: Submit, dies: str) -> None:
    futures = gathered(table, submit, ["a", "b"])
    if dies == "the next":
        table.let_go()
        assert table.began.acquire(timeout=HUNG_SECONDS)
        futures.append(submit("c"))
        eventually(lambda: parked() == 2)
    table.dies = True
    table.let_go(3)
    ended = [future.exception(HUNG_SECONDS) for future in futures]
    assert [type(error) for error in ended if error is not None] == [Died]
    table.let_go()
    assert submit("later").result(HUNG_SECONDS) == "LATER"


def test_a_thread_waits_no_longer_than_its_deadline(table: Table, submit: Submit) -> None:
    (first,) = gathered(table, submit, [])
    late = submit("late", seconds=0.05)
    with pytest.raises(TimedOutError):
        late.result(HUNG_SECONDS)
    second = submit("second")
    eventually(lambda: parked() == 1)
    table.let_go(2)
    assert results([first, second]) == ["FIRST", "SECOND"]
    assert table.writes == [["first"], ["second"]]


def test_a_deadline_does_not_wait_for_the_writer(table: Table, submit: Submit) -> None:
    (first, leader) = gathered(table, submit, ["leader"])
    late = submit("late", seconds=0.5)
    eventually(lambda: parked() == 2 or late.done())
    table.let_go()
    with pytest.raises(TimedOutError):
        late.result(HUNG_SECONDS)
    table.let_go(2)
    assert results([first, leader]) == ["FIRST", "LEADER"]
