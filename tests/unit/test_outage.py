"""Who may ask a database that hangs."""

import pytest

from app.errors import UnavailableError
from app.outage import Outage


def test_without_an_outage_everybody_may() -> None:
    outage = Outage()
    with outage.probe(), outage.probe():
        pass


def test_during_an_outage_one_at_a_time_may() -> None:
    outage = Outage()
    outage.begins()
    for _ in range(2):
        with outage.probe(), pytest.raises(UnavailableError), outage.probe():
            pass


def test_an_answer_ends_it_for_all() -> None:
    outage = Outage()
    outage.begins()
    with outage.probe():
        outage.ends()
        with outage.probe():
            pass


def test_who_began_before_it_does_not_end_a_probe() -> None:
    outage = Outage()
    with outage.probe():
        outage.begins()
    with outage.probe(), pytest.raises(UnavailableError), outage.probe():
        pass
