"""Indexes of jobs: none holds what the end of a job that runs once changes."""

from sqlalchemy import Index

from schema import tables
from tests.cases import each_case


@each_case("index", sorted(tables.jobs.indexes, key=lambda index: str(index.name)))
def test_no_index_holds_what_the_end_of_a_job_changes(index: Index) -> None:
    """Not even in its predicate: PostgreSQL would write a new entry into every index (no HOT update)."""
    condition = str(index.dialect_options["postgresql"]["where"])
    assert not [name for name in ("status", "retired_at") if name in index.columns or name in condition]
