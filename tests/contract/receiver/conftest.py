"""Fixtures of the receiver's tests: an empty database, and the id of a new execution."""

import secrets
from collections.abc import Iterator

import pytest

from tests.servers import Cluster


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    """URL of an empty database per module."""
    url = cluster.create()
    yield url
    cluster.drop(url)


@pytest.fixture
def execution() -> str:
    return f"exec_{secrets.token_hex(8)}"
