"""Endpoints that notify people: one more type."""

from schema import online

revision = "0032"
down_revision = "0031"

BEFORE = "endpoint_type IN ('HTTP', 'KAFKA', 'REDIS_STREAM')"
AFTER = "endpoint_type IN ('HTTP', 'KAFKA', 'REDIS_STREAM', 'NOTIFICATION')"
# Table, the name of the check before, and that after.
CHECKS = (
    ("endpoints", "chk_endpoints_type", "chk_endpoints_endpoint_type"),
    ("endpoint_versions", "chk_endpoint_versions_type", "chk_endpoint_versions_endpoint_type"),
    ("jobs", "chk_jobs_endpoint_type", "chk_jobs_type"),
)


def upgrade() -> None:
    """Widen the checks; each step may be repeated."""
    for table, before, after in CHECKS:
        online.add_check(table, after, AFTER)
        online.drop_constraint(table, before)


def downgrade() -> None:
    """Narrow them again; raises the database's error where there are such endpoints, or jobs of them."""
    for table, before, after in CHECKS:
        online.add_check(table, before, BEFORE)
        online.drop_constraint(table, after)
