"""The verifier's witness in the database, and the check that no other work uses the database."""

import pytest

from app.dev.verify.stored import OtherWorkError, refuse_other_work
from app.dev.verify.witness import Witness
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from schema.states import ExecutionStatus
from tests import rows
from tests.claiming import release, take

S = ExecutionStatus


@pytest.mark.postgresql_only
def test_witness_records_each_change_and_can_be_removed(database: Database) -> None:
    witness = Witness(database, "test")
    witness.install()
    (execution_id,) = rows.add_executions(database)
    worker_lease.register(database, worker_id="w1", host="h", pid=1, queues=["http"], capacity=1, lease_ms=60_000)
    claimed = take(database, "w1", 1)
    release(database, "w1", [claim.key for claim in claimed.claims])
    changes = witness.changes(["target"])
    assert changes is not None
    assert [(c.before, c.after, c.attempt_after, c.worker_after, c.lease_valid) for c in changes] == [
        (None, S.QUEUED, 0, None, None),
        (S.QUEUED, S.RUNNING, 1, "w1", True),
        (S.RUNNING, S.QUEUED, 0, "w1", None),
    ]
    assert {change.execution_id for change in changes} == {execution_id}
    assert witness.changes(["another"]) == ()
    witness.remove()
    assert take(database, "w1", 1).claims


def test_database_with_other_work_is_refused(database: Database, database_url: str) -> None:
    refuse_other_work(database_url)
    rows.add_executions(database)
    with pytest.raises(OtherWorkError, match="1 unfinished executions"):
        refuse_other_work(database_url)


def test_database_without_tables_is_accepted(empty_database_url: str) -> None:
    refuse_other_work(empty_database_url)
