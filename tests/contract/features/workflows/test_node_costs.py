"""Versions of rows that a step writes for a node of a wide workflow: each is an entry in each index of the table."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import event

from app.kernel.db import Database
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
