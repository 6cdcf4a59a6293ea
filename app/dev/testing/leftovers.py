"""Leftovers: rows of a test, deleted after it. Definitions, keys and the processes' own rows stay."""

from schema.tables.columns import metadata

KEPT = {
    *("api_keys", "catalog_revision", "configs", "endpoint_versions", "endpoints", "enqueue_settings"),
    *("notification_rules", "paused_queues", "payload_specs", "region_heartbeats", "region_status", "routes"),
    *("secrets", "signing_keys", "superseded_configs", "time_zone_rules", "workers"),
}

TABLES = tuple(table.name for table in reversed(metadata.sorted_tables) if table.name not in KEPT)
"""Tables to empty, children first."""
DELETE = "; ".join(f"DELETE FROM {name}" for name in TABLES)
