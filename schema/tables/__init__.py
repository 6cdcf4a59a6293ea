"""Every table, in types that CockroachDB and PostgreSQL share (TEXT, BYTEA, BIGINT, BOOLEAN, TIMESTAMPTZ, JSONB).

Ids are made by the client, so a repeated statement is recognised; on CockroachDB no primary key leads with a time.
Indexes that workers read in time order lead with `queue` and `shard`; list pages are read by (created_at, id).
"""

from schema.tables.catalog import (
    catalog_revision,
    configs,
    endpoint_versions,
    endpoints,
    payload_specs,
    secrets,
    superseded_configs,
)
from schema.tables.columns import metadata
from schema.tables.ending import bulk_operations, dead_letters, execution_ends, redrives
from schema.tables.executions import attempts, execution_events, execution_logs, executions
from schema.tables.jobs import jobs, time_zone_rules, unfinished_changes
from schema.tables.limits import (
    breaker_counts,
    breaker_endpoints,
    breaker_events,
    breakers,
    gate_windows,
    gates,
    paused_queues,
    routes,
)
from schema.tables.notifications import (
    notification_conditions,
    notification_groups,
    notification_parts,
    notification_rules,
    notification_subjects,
)
from schema.tables.service import (
    api_keys,
    audit_log,
    enqueue_settings,
    idempotency_keys,
    region_heartbeats,
    region_status,
    signing_keys,
    worker_commands,
    workers,
)

__all__ = [
    "api_keys",
    "attempts",
    "audit_log",
    "breaker_counts",
    "breaker_endpoints",
    "breaker_events",
    "breakers",
    "bulk_operations",
    "catalog_revision",
    "configs",
    "dead_letters",
    "endpoint_versions",
    "endpoints",
    "enqueue_settings",
    "execution_ends",
    "execution_events",
    "execution_logs",
    "executions",
    "gate_windows",
    "gates",
    "idempotency_keys",
    "jobs",
    "metadata",
    "notification_conditions",
    "notification_groups",
    "notification_parts",
    "notification_rules",
    "notification_subjects",
    "paused_queues",
    "payload_specs",
    "redrives",
    "region_heartbeats",
    "region_status",
    "routes",
    "secrets",
    "signing_keys",
    "superseded_configs",
    "time_zone_rules",
    "unfinished_changes",
    "worker_commands",
    "workers",
]
