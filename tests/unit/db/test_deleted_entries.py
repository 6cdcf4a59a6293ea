"""Deleted entries on CockroachDB: they stay in an index for `gc.ttlseconds`, and a read from its front passes them all.

So each table that is inserted into and deleted from has a short history, and its readers start at a mark: or the reason
why it needs none stands here.
"""

import re

from schema.creation import SHORT_HISTORIES
from tests.statements import BUILT, DELETE, INSERT, REGISTRY, tables_of

# The parameter with which a statement starts behind the entries that were deleted before.
MARKED = {
    "executions": [
        ("executions.poll_1", ":since_0"),
        ("executions.promote", ":since"),
        ("executions.expired", ":since"),
    ],
    "jobs": [("jobs.repeating", ":after_at")],
    "execution_ends": [("execution_ends.waiting", ":since"), ("execution_ends.due", ":at")],
    "idempotency_keys": [("idempotency.prune", ":since")],
    "console_sessions": [("console_sessions.prune", ":since")],
    "audit_log": [("audit.prune", ":since")],
    "breaker_events": [("breaker_pruning.prune_events", ":since")],
    "notification_groups": [("notifications.prune_groups", ":since")],
    "notification_subjects": [("notifications.prune_subjects", ":since")],
    "gates": [("limiters.prune", ":after")],
    "redrives": [("redrives.prune", ":since")],
    "bulk_operations": [("bulk_operations.prune", ":since")],
    "workflows": [("workflows.old", ":since")],
    "endpoints": [("inline_endpoints.prune", ":since")],
    "delivery_rollups": [("rollups.prune", ":since"), ("rollups.deliveries", ":since")],
    "failure_rollups": [("rollups.prune_failures", ":since"), ("rollups.failures", ":since")],
    "queue_samples": [("rollups.prune_samples", ":since"), ("rollups.samples", ":since")],
}
OF_EXECUTION = "read by the ids of executions, never from the front of an index"
OF_PARENT = "read by the key of its parent"
FEW = "a few rows, deleted by the day or by hand"
UNMARKED = {
    "attempts": OF_EXECUTION,
    "execution_logs": OF_EXECUTION,
    "execution_events": OF_EXECUTION,
    "dead_letters": OF_EXECUTION,
    "endpoint_versions": OF_PARENT,
    "gate_windows": OF_PARENT,
    "breaker_endpoints": OF_PARENT,
    "workflow_edges": OF_PARENT,
    "workflow_events": OF_PARENT,
    "workflow_nodes": "read by workflow, or from index entries that steps remove; a short history bounds these",
    "breaker_counts": "read by target, in no order of time; a short history bounds its entries to twice its rows",
    "notification_parts": "read in no order of time; a short history bounds what a run passes",
    "actor_processes": FEW,
    "breakers": FEW,
    "configs": FEW,
    "notification_conditions": FEW,
    "notification_rules": FEW,
    "paused_queues": FEW,
    "payload_specs": FEW,
    "region_heartbeats": FEW,
    "routes": FEW,
    "secrets": FEW,
    "superseded_configs": FEW,
    "te_grants": FEW,
    "unfinished_changes": FEW,
    "worker_commands": FEW,
    "workers": FEW,
}
DAYS = "deleted days after the insert, once an hour, each run from its own mark"
UNUSED = "at most TE_MAX_INLINE_ENDPOINTS rows, deleted after an hour, once an hour, each run from its own mark"
LONG_HISTORIES = {
    "actor_processes": FEW,
    "console_sessions": FEW,
    "attempts": DAYS,
    "audit_log": DAYS,
    "breaker_events": DAYS,
    "bulk_operations": DAYS,
    "dead_letters": DAYS,
    "execution_events": DAYS,
    "execution_logs": DAYS,
    "gates": DAYS,
    "gate_windows": DAYS,
    "notification_groups": DAYS,
    "notification_subjects": DAYS,
    "redrives": DAYS,
    "workflow_edges": DAYS,
    "workflow_events": DAYS,
    "endpoint_versions": UNUSED,
    "endpoints": UNUSED,
    "breaker_endpoints": FEW,
    "breakers": FEW,
    "configs": FEW,
    "notification_conditions": FEW,
    "notification_rules": FEW,
    "paused_queues": FEW,
    "payload_specs": FEW,
    "region_heartbeats": FEW,
    "routes": FEW,
    "secrets": FEW,
    "superseded_configs": FEW,
    "te_grants": FEW,
    "unfinished_changes": FEW,
    "worker_commands": FEW,
    "workers": FEW,
}


def changed_by(verb: str) -> set[str]:
    return tables_of(verb, (clause.text for clause in REGISTRY.values())) | BUILT[verb]


INSERTED_AND_DELETED = changed_by(DELETE) & changed_by(INSERT)


def test_each_table_has_a_short_history_or_a_reason() -> None:
    assert set(SHORT_HISTORIES) | LONG_HISTORIES.keys() == INSERTED_AND_DELETED
    assert set(SHORT_HISTORIES) & LONG_HISTORIES.keys() == set()


def test_each_table_is_read_from_a_mark_or_has_a_reason() -> None:
    assert MARKED.keys() | UNMARKED.keys() == INSERTED_AND_DELETED
    assert MARKED.keys() & UNMARKED.keys() == set()


def test_marked_statements_start_at_their_mark() -> None:
    reads = [(name, mark) for statements in MARKED.values() for name, mark in statements]
    assert [name for name, mark in reads if not re.search(rf"{mark}\b", REGISTRY[name].text)] == []
