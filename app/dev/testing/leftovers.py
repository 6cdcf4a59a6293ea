"""Leftovers: rows of a test, deleted after it. Definitions, keys and the processes' own rows stay."""

from app.dev.testing.moved_clock import MovedClock
from schema.tables.columns import metadata

KEPT = {
    *("api_keys", "catalog_revision", "configs", "endpoint_versions", "endpoints", "enqueue_settings"),
    *("notification_rules", "paused_queues", "payload_specs", "region_heartbeats", "region_status", "routes"),
    *("secrets", "signing_keys", "superseded_configs", "te_grants", "time_zone_rules", "workers"),
}

TABLES = tuple(table.name for table in reversed(metadata.sorted_tables) if table.name not in KEPT)
"""Tables to empty, children first."""


def delete(clock: MovedClock) -> list[str]:
    """Delete the leftovers in one transaction; return the executions among them, which a worker may still deliver."""
    with clock.transaction():
        clock.count_clear()
        for name in TABLES[: TABLES.index("executions")]:
            clock.run(f"DELETE FROM {name}")
        executions = [row[0] for row in clock.rows("DELETE FROM executions RETURNING execution_id")]
        for name in TABLES[TABLES.index("executions") + 1 :]:
            clock.run(f"DELETE FROM {name}")
    return executions
