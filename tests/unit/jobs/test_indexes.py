"""Indexes of jobs: none contains a column that changes when a one-shot job ends."""

from sqlalchemy import Index

from schema import tables
from tests.cases import each_case


@each_case("index", sorted(tables.jobs.indexes, key=lambda index: str(index.name)))
def test_no_index_contains_a_column_that_the_end_of_a_job_changes(index: Index) -> None:
    """The predicate counts too: otherwise PostgreSQL writes a new entry into every index (no HOT update)."""
    condition = str(index.dialect_options["postgresql"]["where"])
    assert not [name for name in ("status", "retired_at") if name in index.columns or name in condition]
