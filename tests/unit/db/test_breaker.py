"""Circuit breaker of the database: probes while it is open, and the events that open and close it."""

from collections.abc import Iterator
from typing import NoReturn

import pytest
from sqlalchemy.exc import OperationalError

from app.kernel.db import deadline
from app.kernel.db.retries import DatabaseBreaker, retried
from app.kernel.errors import TimedOutError, UnavailableError


def test_closed_breaker_admits_every_attempt() -> None:
    breaker = DatabaseBreaker()
    with breaker.probe(), breaker.probe():
        pass


def test_open_breaker_admits_one_probe_at_a_time() -> None:
    breaker = DatabaseBreaker()
    breaker.trip()
    for _ in range(2):
        with breaker.probe(), pytest.raises(UnavailableError), breaker.probe():
            pass


def test_answer_closes_the_breaker_for_all() -> None:
    breaker = DatabaseBreaker()
    breaker.trip()
    with breaker.probe():
        breaker.reset()
        with breaker.probe():
            pass


def test_attempt_from_before_the_opening_does_not_end_a_probe() -> None:
    breaker = DatabaseBreaker()
    with breaker.probe():
        breaker.trip()
    with breaker.probe(), pytest.raises(UnavailableError), breaker.probe():
        pass


def test_probe_statement_closes_the_breaker_and_keeps_other_statements_out_until_then() -> None:
    breaker = DatabaseBreaker()
    breaker.trip()

    def answer() -> int:
        with pytest.raises(UnavailableError):
            retried(int, breaker)
        return 1

    assert retried(answer, breaker) == 1
    assert not breaker.is_open


@pytest.fixture
def _no_deadline_afterwards() -> Iterator[None]:
    yield
    deadline.end()


@pytest.mark.usefixtures("_no_deadline_afterwards")
def test_deadline_that_passes_while_a_connection_is_lost_opens_the_breaker() -> None:
    breaker = DatabaseBreaker()

    def lose() -> NoReturn:
        deadline.begin(0)
        raise OperationalError("SELECT 1", {}, Exception(), connection_invalidated=True)

    with pytest.raises(TimedOutError):
        retried(lose, breaker)
    assert breaker.is_open
