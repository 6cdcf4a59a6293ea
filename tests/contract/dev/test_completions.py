"""Deliveries of the benchmark of transports: missing ones are reported with the states of their executions."""

import pytest

from app.dev.process.child import ChildError
from app.kernel.db import Database
from benchmarks.measures.transports import Completions
from tests.rows import add_endpoint, add_executions

pytestmark = pytest.mark.postgresql_only


def test_missing_deliveries_are_reported_with_the_states_of_their_executions(
    database: Database, database_url: str
) -> None:
    add_executions(database, 2)
    add_executions(database, 1, endpoint=add_endpoint(database, "other"))
    completions = Completions(database_url, "target", lambda: 5)
    completions.clear()
    with pytest.raises(ChildError, match=r"^0 of 2 deliveries arrived within 0 s; .*: QUEUED 0: 2$"):
        completions.wait_for(2, timeout=0.0)
