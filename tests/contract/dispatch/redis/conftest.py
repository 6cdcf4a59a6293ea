"""A client of the test's Redis server."""

import pytest
import redis


@pytest.fixture
def client(valkey):
    client = redis.Redis.from_url(valkey.url, decode_responses=True)
    yield client
    client.flushall()
    client.close()
