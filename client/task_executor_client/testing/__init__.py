"""pytest plugin: the whole service in a stack of its own, whose clock tests can move (extra `testing`).

A `conftest.py` at the root of the tests enables it by `pytest_plugins = ["task_executor_client.testing"]`. The stack
starts with the first test that uses a fixture of it, and stops at the end of the session. After each test its jobs are
deleted and its clock is that of the machine again; endpoints and other definitions stay.

Example:
    def test_reminder_goes_out_after_three_days(te, te_clock, deliveries):
        te.send(deliveries.url("/remind"), {"user": "ada"}, delay="3d")
        te_clock.advance("2d")
        assert len(deliveries) == 0
        te_clock.advance("1d")
        assert deliveries[0].json() == {"user": "ada"}
"""

from collections.abc import Iterator

import pytest

from ..client import Client
from .clock import Clock
from .delivery import Answer, Delivery
from .receiver import Deliveries
from .stack import Stack, StackError

__all__ = [
    "Answer",
    "Clock",
    "Deliveries",
    "Delivery",
    "Stack",
    "StackError",
    "deliveries",
    "te",
    "te_clock",
    "te_stack",
]


@pytest.fixture(scope="session")
def te_stack() -> Iterator[Stack]:
    """Return the running stack: `url` and `key` of its API, `database_url` and `receiver_url`.

    Raises:
        StackError: The stack does not start; the message has the output.
    """
    with Stack() as stack:
        yield stack


@pytest.fixture
def _te_test(te_stack: Stack) -> Iterator[Stack]:
    yield te_stack
    te_stack.clear()


@pytest.fixture
def te(_te_test: Stack) -> Iterator[Client]:
    """Return a client of the stack with all scopes."""
    with Client(_te_test.url, _te_test.key) as client:
        yield client


@pytest.fixture
def te_clock(_te_test: Stack) -> Clock:
    """Return the clock of the stack."""
    return Clock(_te_test)


@pytest.fixture
def deliveries(_te_test: Stack) -> Deliveries:
    """Return the deliveries that arrive at the receiver of the stack during the test."""
    return _te_test.deliveries
