"""Marks of changes: each kind of change moves its own mark, in one statement."""

from collections.abc import Callable

from sqlalchemy import text

from app.features.events import change_marks
from app.kernel.db import Database
from app.kernel.processes import actor_processes, worker_lease
from app.kernel.processes.actor_processes import ActorProcess
from tests.cases import each_case

CHANGES: dict[str, Callable[[Database], object]] = {
    "audit": lambda database: run(
        database,
        "INSERT INTO audit_log (audit_id, actor_name, action, resource_type, resource) "
        "VALUES ('a', 'x', 'create', 'config', 'x')",
    ),
    "breakers": lambda database: run(
        database,
        "INSERT INTO breaker_events (event_id, target, from_state, to_state, reason) "
        "VALUES ('b', 't', 'closed', 'open', 'x')",
    ),
    "flow": lambda database: run(database, "UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow'"),
    "walks": lambda database: run(
        database, "INSERT INTO redrives (redrive_id, status, wanted, rate) VALUES ('r', 'RUNNING', '{}', 1)"
    ),
    "workers": lambda database: worker_lease.register(
        database, worker_id="w", host="h", pid=1, queues=["http"], capacity=1, lease_ms=60_000
    ),
    "workflows": lambda database: run(
        database,
        "INSERT INTO workflows (workflow_id, name, input, nodes, open_nodes) VALUES ('wf', 'n', '{}', 1, 1)",
    ),
}


def run(database: Database, statement: str) -> None:
    database.fetch(text(statement))


@each_case("kind", CHANGES)
def test_change_moves_the_mark_of_its_kind_only(database: Database, kind: str) -> None:
    before = change_marks.read(database)
    CHANGES[kind](database)
    after = change_marks.read(database)
    assert change_marks.changed(before, after) == [kind]
    assert change_marks.changed(after, change_marks.read(database)) == []


def test_lost_worker_and_progress_of_a_bulk_job_are_changes(database: Database) -> None:
    CHANGES["workers"](database)
    CHANGES["walks"](database)
    before = change_marks.read(database)
    run(database, "UPDATE workers SET lease_expires_at = now()")
    run(database, "UPDATE redrives SET redriven = redriven + 1")
    assert change_marks.changed(before, change_marks.read(database)) == ["walks", "workers"]


def test_process_with_actors_that_connects_or_leaves_is_a_change(database: Database) -> None:
    for is_connected in (True, False, True):
        before = change_marks.read(database)
        process = ActorProcess(
            session_id="s", host="h", pid=1, threads=1, endpoints=("mail",), is_connected=is_connected
        )
        actor_processes.write(database, "w", process)
        assert change_marks.changed(before, change_marks.read(database)) == ["workers"]
