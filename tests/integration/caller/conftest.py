"""Fixtures: the API on a port, and both clients. The tests of a module share a database."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from task_executor_client import Client, Retries

from tests.integration.caller.blocking import blocking
from tests.integration.caller.serving import FaultyNetwork, serving
from tests.integration.client import Api

# Waits between tries are short: each fault in these tests ends at once.
RETRIES = Retries(timeout=20, first_wait=0.001, longest_wait=0.01)
Connect = Callable[..., Any]
_numbers = count()


@pytest.fixture(scope="module")
def served(shared_api: Api) -> Iterator[tuple[str, FaultyNetwork]]:
    with serving(shared_api.app) as found:
        yield found


@pytest.fixture
def network(served: tuple[str, FaultyNetwork]) -> FaultyNetwork:
    served[1].clear()
    return served[1]


@pytest.fixture(scope="module")
def address(served: tuple[str, FaultyNetwork]) -> str:
    return served[0]


@pytest.fixture
def name() -> str:
    """Return a name that no other test uses."""
    return f"name-{next(_numbers)}"


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest, address: str, shared_api: Api) -> Iterator[Connect]:
    """Build clients of the parametrised kind by `connect(**options)`; all are closed after the test."""
    with ExitStack() as opened:

        def build(base_url: str = address, key: str | None = shared_api.key, **options: Any) -> Any:
            options = {"retries": RETRIES} | options
            kind = Client if request.param == "sync" else blocking
            client: Any = opened.enter_context(kind(base_url, key or "", **options))
            return client

        yield build


@pytest.fixture
def te(connect: Connect) -> Any:
    """Return a client of the parametrised kind with the scope admin."""
    return connect()
