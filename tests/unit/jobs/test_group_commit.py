"""Group commit: one of several concurrent threads writes for all of them, and no thread waits for ever."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from app.kernel.db import deadline
from app.kernel.errors import TimedOutError
from app.queue.jobs.group_commit import MAX_GROUP, GroupCommit
from tests.group_commit_waiters import waiting_in_group_commit
from tests.waiting import HUNG_SECONDS, eventually

BAD = "bad"


class LeaderDiedError(BaseException):
    """Error that no handler catches."""


class Table:
    """Table whose writes wait until the test releases them, and which records each batch of items."""

    def __init__(self) -> None:
        self.writes: list[list[str]] = []
        self.began = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.dies = False

    def write(self, items: Sequence[str]) -> list[str | None]:
        """Return each item in capitals, or None for the item "taken"."""
        self.writes.append(list(items))
        self.began.release()
        assert self.may_end.acquire(timeout=HUNG_SECONDS)
        if self.dies:
            self.dies = False
            raise LeaderDiedError
        if BAD in items:
            raise ValueError("a bad item")
        return [None if item == "taken" else item.upper() for item in items]

    def release(self, writes: int = 1) -> None:
        """Let `writes` writes end."""
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
    """Submit an item on a separate thread."""
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


def submitted_behind_first(
    table: Table, submit: Submit, items: Sequence[str], first: str = "first"
) -> list[Future[str | None]]:
    """Start a write of the first item alone, and return once all other items wait."""
    futures = [submit(first)]
    assert table.began.acquire(timeout=HUNG_SECONDS)
    futures += [submit(item) for item in items]
    eventually(lambda: waiting_in_group_commit() == len(items))
    return futures


def results(futures: Sequence[Future[str | None]]) -> list[str | None]:
    return [future.result(HUNG_SECONDS) for future in futures]


def test_first_item_is_written_alone_and_waiting_items_together(table: Table, submit: Submit) -> None:
    futures = submitted_behind_first(table, submit, ["a", "taken", "b"])
    assert table.writes == [["first"]]
    table.release(2)
    assert results(futures) == ["FIRST", "A", None, "B"]
    assert [sorted(items) for items in table.writes] == [["first"], ["a", "b", "taken"]]


def test_groups_do_not_wait_for_each_other(table: Table, submit: Submit) -> None:
    one = submit("a", "one")
    assert table.began.acquire(timeout=HUNG_SECONDS)
    other = submit("b", "other")
    assert table.began.acquire(timeout=HUNG_SECONDS)
    table.release(2)
    assert results([one, other]) == ["A", "B"]


def test_group_has_a_maximum_size(table: Table, submit: Submit) -> None:
    items = [f"i{number}" for number in range(MAX_GROUP + 1)]
    futures = submitted_behind_first(table, submit, items)
    table.release(3)
    assert results(futures) == ["FIRST", *[item.upper() for item in items]]
    assert [len(written) for written in table.writes] == [1, MAX_GROUP, 1]


def test_failed_group_is_left_to_each_caller(table: Table, submit: Submit) -> None:
    futures = submitted_behind_first(table, submit, ["a", BAD, "b"])
    table.release(3)
    assert results(futures) == ["FIRST", None, None, None]
    assert submit("later").result(HUNG_SECONDS) == "LATER"


def test_failure_of_a_single_item_is_raised_to_its_writer(table: Table, submit: Submit) -> None:
    futures = submitted_behind_first(table, submit, ["a", "b"], first=BAD)
    table.release(2)
    with pytest.raises(ValueError, match="a bad item"):
        futures[0].result(HUNG_SECONDS)
    assert results(futures[1:]) == ["A", "B"]


@pytest.mark.parametrize("dies", ["the first", "the next"])
def test_waiting_threads_continue_when_the_leader_dies(table: Table, submit: Submit, dies: str) -> None:
    futures = submitted_behind_first(table, submit, ["a", "b"])
    if dies == "the next":
        table.release()
        assert table.began.acquire(timeout=HUNG_SECONDS)
        futures.append(submit("c"))
        eventually(lambda: waiting_in_group_commit() == 2)
    table.dies = True
    table.release(3)
    ended = [future.exception(HUNG_SECONDS) for future in futures]
    assert [type(error) for error in ended if error is not None] == [LeaderDiedError]
    table.release()
    assert submit("later").result(HUNG_SECONDS) == "LATER"


def test_thread_waits_no_longer_than_its_deadline(table: Table, submit: Submit) -> None:
    (first,) = submitted_behind_first(table, submit, [])
    late = submit("late", seconds=0.05)
    with pytest.raises(TimedOutError):
        late.result(HUNG_SECONDS)
    second = submit("second")
    eventually(lambda: waiting_in_group_commit() == 1)
    table.release(2)
    assert results([first, second]) == ["FIRST", "SECOND"]
    assert table.writes == [["first"], ["second"]]


def test_deadline_does_not_wait_for_the_writer(table: Table, submit: Submit) -> None:
    (first, leader) = submitted_behind_first(table, submit, ["leader"])
    late = submit("late", seconds=0.5)
    eventually(lambda: waiting_in_group_commit() == 2 or late.done())
    table.release()
    with pytest.raises(TimedOutError):
        late.result(HUNG_SECONDS)
    table.release(2)
    assert results([first, leader]) == ["FIRST", "LEADER"]
