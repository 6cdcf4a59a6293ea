"""Who may ask a database that hangs."""

import pytest

from app.db.breaker import Breaker
from app.errors import UnavailableError


def test_without_an_outage_everybody_may() -> None:
    breaker = Breaker()
    with breaker.probe(), breaker.probe():
        pass


def test_during_an_outage_one_at_a_time_may() -> None:
    breaker = Breaker()
    breaker.begins()
    for _ in range(2):
        with breaker.probe(), pytest.raises(UnavailableError), breaker.probe():
            pass


def test_an_answer_ends_it_for_all() -> None:
    breaker = Breaker()
    breaker.begins()
    with breaker.probe():
        breaker.ends()
        with breaker.probe():
            pass


def test_who_began_before_it_does_not_end_a_probe() -> None:
    breaker = Breaker()
    with breaker.probe():
        breaker.begins()
    with breaker.probe(), pytest.raises(UnavailableError), breaker.probe():
        pass
