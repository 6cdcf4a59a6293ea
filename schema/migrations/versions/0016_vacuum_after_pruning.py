"""Vacuum attempts and log lines early on PostgreSQL: pruning leaves dead entries at the front of their indexes.

For each list the planner looks up the ends of such an index, and passes over what is dead there.
"""

from schema import online

revision = "0016"
down_revision = "0015"

TABLES = ("attempts", "execution_logs")


def upgrade() -> None:
    """Set storage parameters; setting them again changes nothing."""
    for table in () if online.is_cockroach() else TABLES:
        online.set_storage(table, "SET (autovacuum_vacuum_scale_factor = 0.02)")


def downgrade() -> None:
    """Go back to the defaults."""
    for table in () if online.is_cockroach() else TABLES:
        online.set_storage(table, "RESET (autovacuum_vacuum_scale_factor)")
