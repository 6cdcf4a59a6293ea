"""Room on each page of jobs and nodes for a second version of each row."""

from schema import online

revision = "0125"
down_revision = "0124"


def upgrade() -> None:
    if not online.is_cockroach():
        for table in ("jobs", "workflow_nodes"):
            online.set_storage(table, "SET (fillfactor = 50)")
