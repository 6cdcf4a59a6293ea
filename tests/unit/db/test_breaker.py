"""Circuit breaker: who may try a database that hangs, and what opens and closes it."""

from collections.abc import Iterator
from typing import NoReturn

import pytest
from sqlalchemy.exc import OperationalError

from app.kernel.db import deadline
from app.kernel.db.retries import DatabaseBreaker, retried
from app.kernel.errors import TimedOutError, UnavailableError


def test_while_it_is_closed_everybody_may() -> None:
    breaker = DatabaseBreaker()
    with breaker.probe(), breaker.probe():
        pass


def test_while_it_is_open_one_at_a_time_may() -> None:
    breaker = DatabaseBreaker()
    breaker.trip()
    for _ in range(2):
        with breaker.probe(), pytest.raises(UnavailableError), breaker.probe():
            pass


def test_an_answer_closes_it_for_all() -> None:
    breaker = DatabaseBreaker()
    breaker.trip()
    with breaker.probe():
        breaker.reset()
        with breaker.probe():
            pass


def test_who_began_before_it_opened_does_not_end_a_probe() -> None:
    breaker = DatabaseBreaker()
    with breaker.probe():
        breaker.trip()
    with breaker.probe(), pytest.raises(UnavailableError), breaker.probe():
        pass


def test_a_statement_that_meets_it_open_closes_it_with_its_answer_and_keeps_others_out_until_then() -> None:
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
def test_a_deadline_that_passes_while_a_connection_is_lost_opens_it() -> None:
    breaker = DatabaseBreaker()

    def lose() -> NoReturn:
        deadline.begin(0)
        raise OperationalError("SELECT 1", {}, Exception(), connection_invalidated=True)

    with pytest.raises(TimedOutError):
        retried(lose, breaker)
    assert breaker.is_open
