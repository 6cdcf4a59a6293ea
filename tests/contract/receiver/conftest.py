"""Fixtures of the receiver's side: an empty database, and an execution that no other test has."""

import secrets
from collections.abc import Iterator

import pytest

from tests.servers import Cluster


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> Iterator[str]:
    """An empty database of a module."""
    url = cluster.create()
    yield url
    cluster.drop(url)


@pytest.fixture
def execution() -> str:
    return f"exec_{secrets.token_hex(8)}"
