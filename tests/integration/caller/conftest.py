"""Fixtures: the API on a port, and both clients of it. The tests of a module share a database."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from task_executor_client import Client, Retries

from tests.integration.caller.blocking import blocking
from tests.integration.caller.serving import Weather, serving
from tests.integration.client import Api

# What fails here fails at once.
RETRIES = Retries(timeout=20, first_wait=0.001, longest_wait=0.01)
Connect = Callable[..., Any]
_numbers = count()


@pytest.fixture(scope="module")
def served(shared_api: Api) -> Iterator[tuple[str, Weather]]:
    with serving(shared_api.app) as found:
        yield found


@pytest.fixture
def weather(served: tuple[str, Weather]) -> Weather:
    served[1].clear()
    return served[1]


@pytest.fixture(scope="module")
def address(served: tuple[str, Weather]) -> str:
    return served[0]


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"name-{next(_numbers)}"


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest, address: str, shared_api: Api) -> Iterator[Connect]:
    """Build clients of either kind: `connect(**options)`; all are closed afterwards."""
    with ExitStack() as opened:

        def build(base_url: str = address, key: str | None = shared_api.key, **options: Any) -> Any:
            options = {"retries": RETRIES} | options
            kind = Client if request.param == "sync" else blocking
            client: Any = opened.enter_context(kind(base_url, key or "", **options))
            return client

        yield build


@pytest.fixture
def te(connect: Connect) -> Any:
    """A client of either kind with the scope admin."""
    return connect()
