"""Versions of rows that a step writes for a node of a wide workflow: each is an entry in each index of the table."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from app.features.workflows.steps import advancing, joint_step, reporting
from app.features.workflows.stored import node_rows
from app.kernel.db import Database
from app.queue.executions.completion import complete_in
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import job

pytestmark = pytest.mark.own_faults  # repeated statements write rows again

WIDTH = 300
OTHERS = 40  # rows written of the first and the last node, and of the node with items
MEMBERS = [f"m{number}" for number in range(WIDTH)]
NODES = [job("first"), *(job(name, "first") for name in MEMBERS), job("last", *MEMBERS)]
ITEMS = [job("first"), job("map", "first", for_each=[*range(WIDTH)]), job("last", "map")]


@pytest.mark.parametrize("nodes", [NODES, ITEMS], ids=["nodes", "items"])
def test_node_with_a_job_is_written_when_it_starts_and_when_it_ends(
    database: Database, nodes: Sequence[dict[str, Any]]
) -> None:
    flows.register(database)
    workflow_id = flows.create(database, nodes)
    written = list[int]()

    def count(_connection: object, cursor: Any, statement: str, *_more: object) -> None:
        words = statement.split(maxsplit=3)
        if words[:2] == ["UPDATE", "workflow_nodes"] or words[:3] == ["INSERT", "INTO", "workflow_nodes"]:
            written.append(cursor.rowcount)

    event.listen(database.engine, "after_cursor_execute", count)
    assert [len(wave) for wave in flows.run(database, workflow_id)] == [1, WIDTH, 1]
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    assert 2 * WIDTH < sum(written) <= 2 * WIDTH + OTHERS


def test_many_ends_wait_for_a_step_of_another_process_and_few_do_not(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends that do not wait are settled alone, and written once more by the step that reports them."""
    monkeypatch.setattr(joint_step, "PATIENCE_SECONDS", 60.0)
    flows.register(database)
    workflow_id = flows.create(database, [job(f"n{number}") for number in range(1 + joint_step.MANY)])
    flows.advance(database, workflow_id)
    few, *many = flows.end(database, flows.claims(database))
    tries, has_tried_again = count(), threading.Event()

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if statement == advancing.LOCK.text and next(tries):
            has_tried_again.set()

    with database.engine.connect() as step, ThreadPoolExecutor() as pool:
        step.execute(text("SELECT 1 FROM workflows FOR UPDATE"))
        flows.handle(database, [few])
        event.listen(database.engine, "before_cursor_execute", note)
        waiting = pool.submit(flows.handle, database, many)
        assert has_tried_again.wait(60)
        step.rollback()
        waiting.result()
    unreported = [row.node for row in flows.nodes(database, workflow_id) if row.reported_to is not None]
    assert len(unreported) == 1


@pytest.mark.postgresql_only
def test_jobs_that_end_together_are_updated_in_place(database: Database) -> None:
    """One transaction stands for a long one beside many short ones: no old version can be removed from its page."""
    flows.register(database)
    flows.advance(database, flows.create(database, [job(name) for name in MEMBERS]))
    ended = flows.completions(flows.claims(database))
    in_place = text("SELECT pg_stat_get_xact_tuples_hot_updated(CAST('jobs' AS regclass))")

    def end(connection: Connection) -> int:
        assert all(complete_in(connection, flows.WORKER, each) for each in ended)
        return int(connection.execute(in_place).scalar_one())

    assert database.transact(end) == WIDTH


@pytest.mark.postgresql_only
def test_statistics_of_small_workflows_let_no_step_read_a_whole_workflow(database: Database) -> None:
    """The planner takes each workflow for a small one, and must have no index to read all its nodes or edges by."""
    numbers = "FROM generate_series(1, 2000) AS w, generate_series(1, 2) AS n"
    for added in (
        f"INSERT INTO workflow_nodes (workflow_id, node, item, name) SELECT 'wf_' || w, n, 0, 'n' || n {numbers}",
        f"INSERT INTO workflow_edges (workflow_id, parent, child) SELECT 'wf_' || w, n, 3 {numbers}",
        "ANALYZE workflow_nodes",
        "ANALYZE workflow_edges",
    ):
        database.fetch(text(added))
    given = {"workflow_id": "wf_1", "nodes": [1, 2], "parents": [1, 2], "reported": [0, 0], "limit": 500}
    for statement, key, condition in (
        (reporting.EDGES, "pk_workflow_edges", "(parent = p.parent) AND (child > p.reported_to)"),
        (node_rows.READ, "pk_workflow_nodes", "(node = ANY ('{1,2}'::bigint[])) AND (item = 0)"),
    ):
        plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + statement.text), given))
        assert key in plan, plan
        assert condition in plan, plan
