"""Clock of the stack for tests: a database whose time can begin in the past."""

from contextlib import closing
from datetime import timedelta

import pytest

from app.dev.testing.moved_clock import MovedClock
from app.kernel import db
from tests.rows import database_now

pytestmark = pytest.mark.postgresql_only
BACK = timedelta(hours=6)


def test_clock_that_is_set_back_is_moved_to_the_time_of_the_machine(empty_database_url: str) -> None:
    with closing(MovedClock(empty_database_url, BACK)) as clock:
        machine = clock.rows("SELECT pg_catalog.clock_timestamp()")[0][0]
        with closing(db.connect(empty_database_url, pool_size=1, application_name="te-test")) as database:
            assert machine - BACK <= database_now(database) < machine
        clock.run("CREATE TABLE workers (lease_expires_at timestamptz)")
        clock.run("CREATE TABLE endpoints (limits jsonb)")
        clock.run("CREATE TABLE catalog_revision (id text, revision bigint)")
        clock.move(machine)
        assert clock.now() >= machine
