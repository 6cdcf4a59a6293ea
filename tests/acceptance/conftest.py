"""Fixtures of the acceptance ring."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app import db
from app.db import Database
from tests.acceptance.fleet import Fleet


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = db.connect(database_url, pool_size=5, application_name="te-test")
    yield database
    database.close()


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(database_url, tmp_path)
    yield fleet
    fleet.close()
