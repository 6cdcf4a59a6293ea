"""Room on each page of jobs and nodes for a second version of each row."""

from schema import online

revision = "0125"
down_revision = "0124"


def upgrade() -> None:
    if not online.is_cockroach():
        online.set_storage("jobs", "SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05)")
        online.set_storage(
            "workflow_nodes",
            "SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05)",
        )
