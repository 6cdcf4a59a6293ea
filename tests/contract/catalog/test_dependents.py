"""Queries for the dependents that prevent a deletion read few of many executions."""

from collections.abc import Iterator

import pytest
from sqlalchemy import TextClause, text

from app.catalog import dependents
from app.kernel import db
from app.kernel.db import Database
from tests import rows
from tests.contract.blocks import blocks

MANY = 20_000
FEW_BLOCKS = 300  # far fewer than the blocks of all unfinished executions


@pytest.fixture(scope="module")
def crowded(module_database_url: str) -> Iterator[Database]:
    """A database with many unfinished executions of one endpoint, which uses a config, a payload spec and a secret."""
    database = db.connect(module_database_url, pool_size=2, application_name="te-test")
    if database.is_cockroach:
        pytest.skip("counts blocks, which only PostgreSQL reports")
    rows.add_endpoint(database)
    rows.add_executions(database, MANY)
    database.fetch(
        text("UPDATE endpoint_versions SET config_ref = 'c', payload_spec_ref = 'p', secret_refs = '[\"s\"]'")
    )
    for table in ("executions", "jobs", "endpoint_versions"):
        database.fetch(text(f"ANALYZE {table}"))
    yield database
    database.close()


@pytest.mark.parametrize(
    ("query", "name"),
    [
        (dependents.OF_ENDPOINT[1], "target"),
        (dependents.OF_VALUE["config"], "c"),
        (dependents.OF_VALUE["payload spec"], "p"),
        (dependents.OF_VALUE["secret"], "s"),
    ],
    ids=["endpoint", "config", "payload spec", "secret"],
)
def test_query_reads_few_of_many_dependents(crowded: Database, query: TextClause, name: str) -> None:
    params = {"name": name, "most": dependents.SHOWN + 1}
    found = crowded.fetch(query, params)
    assert len(found) == dependents.SHOWN + 1
    assert blocks(crowded, query, params) < FEW_BLOCKS


def test_query_reads_few_blocks_for_an_endpoint_without_dependents(crowded: Database) -> None:
    rows.add_endpoint(crowded, "unused")
    unused = {"name": "unused", "most": dependents.SHOWN + 1}
    assert [crowded.fetch(query, unused) for query in dependents.OF_ENDPOINT] == [[], []]
    assert sum(blocks(crowded, query, unused) for query in dependents.OF_ENDPOINT) < 20
