"""Fixtures of the expiry tests."""

import pytest

from app.kernel.db import Database
from tests import rows


@pytest.fixture
def aged(database: Database) -> Database:
    """A database with the endpoint `aged`: its `max_age_ms` of a minute also bounds the wait of first attempts."""
    rows.add_endpoint(database, "aged", retry_policy={"max_attempts": 3, "max_age_ms": 60_000})
    return database
