"""Counts of uses read few of many executions, also where the executions are of another version."""

import pytest
from sqlalchemy import text

from app.catalog import uses
from app.catalog.named_table import CONFIGS
from app.catalog.uses import MAX_COUNTED, UseExample, UseKind
from app.kernel.db import Database
from tests import rows
from tests.contract.blocks import blocks

MANY = 20_000
FEW_BLOCKS = 2_500  # each of the first executions may be in another block


@pytest.fixture
def crowded(database: Database) -> Database:
    """A database with many waiting executions of one endpoint, whose only version refers to the config `c`."""
    if database.is_cockroach:
        pytest.skip("counts blocks, which only PostgreSQL reports")
    rows.add_executions(database, MANY)
    database.fetch(text("INSERT INTO configs (name, values_json) VALUES ('c', '{}')"))
    database.fetch(text("UPDATE endpoint_versions SET config_ref = 'c'"))
    for table in ("executions", "jobs", "endpoint_versions"):
        database.fetch(text(f"ANALYZE {table}"))
    return database


def waiting(found: uses.Uses) -> uses.Use:
    (use,) = (each for each in found.uses if each.kind is UseKind.WAITING_EXECUTION)
    return use


def test_counts_end_at_their_bound_and_say_so(crowded: Database) -> None:
    for found in (uses.of_endpoint(crowded, "target"), uses.of_value(crowded, CONFIGS, "c")):
        use = waiting(found)
        assert (use.count, use.is_complete, len(use.examples)) == (MAX_COUNTED, False, uses.MAX_EXAMPLES)
    assert blocks(crowded, uses.WORK, {"name": "target", "most": uses.MAX_COUNTED + 1}) < FEW_BLOCKS
    assert blocks(crowded, uses.WAITING_BY_VERSION, {"name": "target"}) < FEW_BLOCKS
    assert blocks(crowded, uses.OF_VALUE["config"], {"name": "c"}) < FEW_BLOCKS


def test_executions_of_another_version_are_no_uses_and_bounded(crowded: Database) -> None:
    crowded.fetch(text("UPDATE endpoint_versions SET config_ref = NULL"))
    crowded.fetch(
        text(
            "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec, config_ref) "
            "SELECT endpoint, 2, endpoint_type, spec, 'c' FROM endpoint_versions"
        )
    )
    use = waiting(uses.of_value(crowded, CONFIGS, "c"))
    assert (use.count, use.is_complete, use.examples) == (0, False, [])
    assert blocks(crowded, uses.OF_VALUE["config"], {"name": "c"}) < FEW_BLOCKS


def test_few_executions_are_counted_completely(database: Database) -> None:
    (execution,) = rows.add_executions(database)
    use = waiting(uses.of_endpoint(database, "target"))
    assert (use.count, use.is_complete, use.examples) == (1, True, [UseExample(execution, "1")])
