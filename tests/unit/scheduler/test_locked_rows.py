"""Warnings about locked rows: each names a row that stays locked, and none repeats itself."""

import pytest

from app.scheduler import locked_rows
from app.scheduler.locked_rows import LockedRow, LockedRows


def rows(*names: str, state: int = 1) -> set[LockedRow]:
    return {LockedRow(name, state) for name in names}


def test_row_is_named_once_two_runs_have_found_it_locked(caplog: pytest.LogCaptureFixture) -> None:
    locked = LockedRows("its ticks wait")
    locked.note(rows("job a"))
    locked.note(rows("job b"))
    assert caplog.messages == []
    locked.note(rows("job a", "job b"))
    assert caplog.messages == ["job b is locked by another transaction; its ticks wait until it is released"]


def test_row_that_another_scheduler_changes_all_the_time_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    locked = LockedRows("its ticks wait")
    for state in range(9):
        locked.note(rows("job a", state=state))
    assert caplog.messages == []


@pytest.mark.parametrize(("seconds", "warnings"), [(60.0, 1), (0.0, 4)])
def test_row_is_named_again_after_a_while(caplog: pytest.LogCaptureFixture, seconds: float, warnings: int) -> None:
    locked = LockedRows("its ticks wait", silent_seconds=seconds)
    for _ in range(5):
        locked.note(rows("job a"))
    assert len(caplog.messages) == warnings


def test_very_many_locked_rows_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    locked = LockedRows("its ticks wait")
    for _ in range(5):
        locked.note(rows(*(f"job {number}" for number in range(1000))))
    assert len(caplog.messages) == locked_rows.MAX_NAMED
