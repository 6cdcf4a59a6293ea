"""The broker's tests run with PostgreSQL's default number of shards, and with CockroachDB's."""

import pytest


@pytest.fixture(params=[1, 16], ids=["1 shard", "16 shards"])
def shards(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number
