"""Prepared statements of steps: their cached plans read rows by keys, and their loss leaves a batch together."""

import re
from collections.abc import Callable, Sequence

import pytest
from sqlalchemy import Connection, text

from app.kernel.db import Database
from app.kernel.db.hot import MAX_PREPARED_ROWS, run_in
from app.kernel.sql import HotStatement
from app.queue.ending.handler import Handler, HandlerResult
from app.queue.ending.outbox_processor import OutboxProcessor
from app.queue.ending.outbox_rows import End
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import job
from tests.plans import plans, single_connection

__all__ = ["single_connection"]  # a fixture
pytestmark = pytest.mark.postgresql_only

OTHERS = 2_000  # workflows of two nodes
NODES = [
    job("first"),
    job("map", "first", for_each=[*range(9)], max_parallel=3),
    *(job(f"m{number}", "first") for number in range(9)),
    job("last", "map", *(f"m{number}" for number in range(9))),
]


def many(database: Database) -> None:
    numbers = f"FROM generate_series(1, {OTHERS}) AS w, generate_series(1, 2) AS n"
    columns = "workflow_id, node, item, name, state, execution_id"
    nodes = f"SELECT 'wf_' || w, n, 0, 'n' || n, 'RUNNING', 'exe_' || w || '_' || n {numbers}"
    database.fetch(text("ALTER TABLE workflow_nodes SET (autovacuum_enabled = false)"))
    database.fetch(text(f"INSERT INTO workflow_nodes ({columns}) {nodes}"))
    database.fetch(text(f"INSERT INTO workflow_edges (workflow_id, parent, child) SELECT 'wf_' || w, n, 3 {numbers}"))
    database.fetch(text("ANALYZE workflow_nodes, workflow_edges"))


def one_wide(database: Database) -> None:
    """One workflow has nearly all rows, so a read of a whole workflow reads the table."""
    nodes = "SELECT 'wf_1', n, 0, 'n' || n, 'WAITING' FROM generate_series(1, 5000) AS n"
    database.fetch(text(f"INSERT INTO workflow_nodes (workflow_id, node, item, name, state) {nodes}"))
    edges = "SELECT 'wf_1', 1, n FROM generate_series(2, 5000) AS n"
    database.fetch(text(f"INSERT INTO workflow_edges (workflow_id, parent, child) {edges}"))
    database.fetch(text("ANALYZE workflow_nodes, workflow_edges"))


def none(database: Database) -> None:
    database.fetch(text("ANALYZE workflow_nodes, workflow_edges"))


@pytest.mark.parametrize("state", [none, many, one_wide])
def test_cached_plan_of_a_step_reads_by_keys_and_joins_in_linear_time(
    database: Database, single_connection: Database, state: Callable[[Database], None]
) -> None:
    state(database)
    flows.register(database)
    workflow_id = flows.create(database, NODES)
    flows.run(single_connection, workflow_id)
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    found = plans(single_connection)
    of_nodes = {f"workflow_nodes_{name}" for name in ("add_items", "find_ended", "read", "ready", "reported")}
    of_nodes |= {f"workflow_nodes_{name}" for name in ("reporting", "settle", "write")}
    assert of_nodes | {"workflows_lock", "workflows_look", "workflows_finish_step"} <= set(found)
    for name in of_nodes:
        assert not re.search(r"Nested Loop[^\n]*\n\s*Join Filter", found[name]), found[name]
        assert state is none or "Seq Scan" not in found[name], found[name]


def test_statement_that_joins_many_rows_is_planned_for_them(database: Database, single_connection: Database) -> None:
    """A plan from when no statistics existed would compare each of 500 nodes with each other."""
    flows.register(database)
    many = MAX_PREPARED_ROWS + 1
    workflow_id = flows.create(database, [job(f"n{number}") for number in range(many)])
    assert [len(wave) for wave in flows.run(single_connection, workflow_id)] == [many]
    joins = {f"workflow_nodes_{name}" for name in ("find_ended", "settle", "write", "reported")}
    assert "workflows_lock" in plans(single_connection)
    assert not joins & set(plans(single_connection))


def test_batch_of_events_stays_together_if_a_prepared_statement_is_lost(
    database: Database, single_connection: Database
) -> None:
    flows.register(database)
    flows.advance(database, flows.create(database, [job("a"), job("b")]))
    hot, handled = HotStatement("test.one", "SELECT 1 AS one"), list[int]()

    def note(connection: Connection, ends: Sequence[End]) -> HandlerResult:
        run_in(connection, hot, {})
        handled.append(len(ends))
        return HandlerResult()

    ended = flows.end(database, flows.claims(database))
    single_connection.fetch(hot)
    single_connection.fetch(text("DEALLOCATE ALL"))
    processor = OutboxProcessor(single_connection, handlers=[Handler("notes", lambda _end: True, note)])
    assert processor.handle(ended).ends == 2
    assert handled == [2]
