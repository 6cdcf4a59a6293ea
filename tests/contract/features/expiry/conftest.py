"""Fixture of the tests of expiry."""

import pytest

from app.kernel.db import Database
from tests import rows


@pytest.fixture
def aged(database: Database) -> Database:
    """An endpoint whose executions may wait for a minute, in their first attempts too."""
    rows.add_endpoint(database, "aged", retry_policy={"max_attempts": 3, "max_age_ms": 60_000})
    return database
