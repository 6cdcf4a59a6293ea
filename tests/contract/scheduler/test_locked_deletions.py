"""Deletion of old rows while another transaction locks one of them: all other rows are deleted, and the log names it.

A deletion that waited for the lock would end with an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.cases import each_case
from tests.contract.scheduler.completed import finish
from tests.contract.scheduler.conftest import chores, holding
from tests.cron_jobs import add_cron_job, daily

OLD = "now() - INTERVAL '400 days'"
KEYS = "unnest(CAST(ARRAY['a', 'b', 'c'] AS TEXT[])) AS u (id)"


@dataclass(frozen=True, slots=True)
class Case:
    """Deletion of old rows a, b and c by a chore, which counts them as `count`; the test locks the row `locked`."""

    chore: str
    count: str
    old: Sequence[str]
    locked: str
    named: str


def old(table: str, columns: str, values: str) -> str:
    return f"INSERT INTO {table} ({columns}) SELECT {values} FROM {KEYS}"


def single(chore: str, count: str, table: str, columns: str, values: str, locked: str, named: str = "b") -> Case:
    name = f"row {named} of {table}"
    return Case(chore, count, [old(table, columns, values)], f"SELECT 1 FROM {table} WHERE {locked} = 'b'", name)


BREAKERS = [
    old("breakers", "target, watched_until", f"id, {OLD}"),
    old("breaker_endpoints", "target, endpoint", "id, 'e'"),
]
INLINE_B = "inline-" + "b" * 32
INLINE = [
    old("endpoints", "name, endpoint_type, spec, updated_at", f"'inline-' || repeat(id, 32), 'HTTP', '{{}}', {OLD}"),
    old("endpoint_versions", "endpoint, version, endpoint_type, spec", "'inline-' || repeat(id, 32), 1, 'HTTP', '{}'"),
]
LIMITERS = [
    old("gates", "gate_id, used_at", f"id || '=secret', {OLD}"),
    old("gate_windows", "gate_id, slot, bucket, started", "id || '=secret', 1, 1, 1"),
]
ORPHANS = {
    "parts": ("rule, part_id, tallies", "id, 'p', '[]'", "b"),
    "conditions": ("rule, event, subject", "id, 'queue.late', 's'", "queue.late"),
    "subjects": ("rule, event, subject, group_id", "id, 'queue.late', 's', 'g'", "b"),
    "groups": ("group_id, rule, told", "id, id, '{}'", "b"),
}
WORKFLOWS = [
    old(
        "workflows",
        "workflow_id, name, input, nodes, open_nodes, status, ended_at",
        f"id, id, '{{}}', 1, 0, 'FAILED', {OLD}",
    ),
    old("workflow_nodes", "workflow_id, node, item", "id, 1, 0"),
    old("workflow_edges", "workflow_id, parent, child", "id, 1, 2"),
    old("workflow_events", "event_id, workflow_id, to_status", "id, id, 'RUNNING'"),
]
CASES = {
    "audit.prune": single(
        *("prune_audit", "entries", "audit_log", "audit_id, actor_name, action, resource_type, resource, occurred_at"),
        *(f"id, 'x', 'create', 'config', 'x', {OLD}", "audit_id"),
    ),
    "idempotency.prune": single(
        *("prune_keys", "idempotency_keys", "idempotency_keys"),
        *("key_id, idempotency_key, fingerprint, request_id, created_at", f"id, 'secret', 'x', 'x', {OLD}", "key_id"),
    ),
    "console_sessions.prune": single(
        *("prune_keys", "sessions", "console_sessions"),
        *("session_hash, key_id, expires_at", f"'secret ' || id, id, {OLD}", "key_id"),
    ),
    "health.prune": single(
        *("prune_heartbeats", "heartbeats", "region_heartbeats", "region, component, metadata, last_beat_at"),
        *(f"'r', id, '{{}}', {OLD}", "component", "r b"),
    ),
    "commands.prune": single(
        *("prune_heartbeats", "commands", "worker_commands"),
        *("command_id, worker_id, command, asked_by, asked_at, expires_at", f"id, 'w', 'drain', 'x', {OLD}, {OLD}"),
        "command_id",
    ),
    "actor_processes.prune": single(
        *("prune_heartbeats", "actor_processes", "actor_processes"),
        *("worker_id, session_id, host, threads, endpoints, left_at", f"'w', id, 'h', 1, '[]', {OLD}"),
        *("session_id", "w b"),
    ),
    "limiter_values.prune": single(
        *("prune_limiter_values", "limiter_values", "limiter_values", "key, party, value, expires_at"),
        *(f"'secret', id, 1, {OLD}", "party"),
    ),
    "superseded_configs.prune": single(
        *("prune_configs", "values", "superseded_configs", "name, superseded_by, values_json, superseded_at"),
        *(f"id, 1, '{{}}', {OLD}", "name", "b 1"),
    ),
    "workers.prune": single(
        *("prune", "workers", "workers", "worker_id, host, pid, queues, capacity, lease_expires_at"),
        *(f"id, 'h', 1, '[]', 1, {OLD}", "worker_id"),
    ),
    "breaker_pruning.prune_counts": single(
        *("prune_breakers", "breaker_counts", "breaker_counts", "target, slot, endpoint, ok, failed"),
        *("id, 1, 'e', 0, 1", "target", "b 1 e"),
    ),
    "breaker_pruning.prune_events": single(
        *("prune_breakers", "breaker_events", "breaker_events"),
        *("event_id, target, from_state, to_state, reason, occurred_at", f"id, 't', 'closed', 'open', 'x', {OLD}"),
        "event_id",
    ),
    "notifications.prune_groups": single(
        *("prune_notifications", "notifications", "notification_groups"),
        *("group_id, rule, told, closed_at, messages", f"id, id, '{{}}', {OLD}, '[]'", "group_id"),
    ),
    "notifications.prune_subjects": single(
        *("prune_notifications", "notifications", "notification_subjects"),
        *("rule, event, subject, group_id, noted_at", f"id, 'queue.late', 's', 'g', {OLD}", "rule", "b queue.late"),
    ),
    **{
        f"notifications.prune_astray_{table}": single(
            "repair", "notes", f"notification_{table}", columns, values, "rule", shown
        )
        for table, (columns, values, shown) in ORPHANS.items()
    },
    "rollups.prune": single(
        *("prune_rollups", "rollups", "delivery_rollups", "endpoint, step_s, slot, attempts"),
        *(f"id, 10, {OLD}, 1", "endpoint", "b 10"),
    ),
    "rollups.prune_failures": single(
        *("prune_rollups", "rollups", "failure_rollups", "endpoint, step_s, slot, error_type"),
        *(f"id, 60, {OLD}, 'TIMEOUT'", "endpoint", "b 60"),
    ),
    "rollups.prune_samples": single(
        *("prune_rollups", "rollups", "queue_samples", "queue, step_s, slot, due, workers"),
        *(f"id, 3600, {OLD}, 1, 1", "queue", "b 3600"),
    ),
    "redrives.prune": single(
        *("prune_redrives", "redrives", "redrives", "redrive_id, status, wanted, rate, ended_at"),
        *(f"id, 'DONE', '{{}}', 1, {OLD}", "redrive_id"),
    ),
    "bulk_operations.prune": single(
        *("prune_bulk_operations", "bulk_operations", "bulk_operations"),
        *(
            "operation_id, action, parameters, status, wanted, rate, ended_at",
            f"id, 'cancel', '{{}}', 'DONE', '{{}}', 1, {OLD}",
        ),
        "operation_id",
    ),
    **{
        f"{table}.prune": Case(
            *("prune_workflows", "workflows", WORKFLOWS, f"SELECT 1 FROM {table} WHERE workflow_id = 'b'"),
            f"row {named} of {table}",
        )
        for table, named in {
            "workflows": "b",
            "workflow_nodes": "b 1 0",
            "workflow_edges": "b 1 2",
            "workflow_events": "b",
        }.items()
    },
    **{
        f"breaker_pruning.prune: {table}": Case(
            "prune_breakers", "breakers", BREAKERS, f"SELECT 1 FROM {table} WHERE target = 'b'", "row b of breakers"
        )
        for table in ("breakers", "breaker_endpoints")
    },
    **{
        f"inline_endpoints.prune: {table}": Case(
            *(
                "prune_inline_endpoints",
                "inline_endpoints",
                INLINE,
                f"SELECT 1 FROM {table} WHERE {key} = '{INLINE_B}'",
            ),
            f"row {INLINE_B} of endpoints",
        )
        for table, key in (("endpoints", "name"), ("endpoint_versions", "endpoint"))
    },
    **{
        f"limiters.prune: {table}": Case(
            *("prune_limiters", "limiters", LIMITERS, f"SELECT 1 FROM {table} WHERE gate_id = 'b=secret'"),
            "a limiter of endpoint b",
        )
        for table in ("gates", "gate_windows")
    },
}


@each_case("case", CASES.values(), ids=CASES)
def test_locked_row_delays_the_deletion_of_no_other_row(
    database: Database, scheduler_database: Database, case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    rows.delete_all(database)
    caplog.clear()
    for insert in case.old:
        database.fetch(text(insert))
    run = getattr(chores(scheduler_database), case.chore)
    with holding(database, case.locked):
        assert run()[case.count] == 2
        assert run()[case.count] == 0
    message = f"{case.named} is locked by another transaction; its deletion waits until it is released"
    assert message in caplog.messages
    assert "secret" not in caplog.text
    assert run()[case.count] == 1


def of_execution(table: str) -> str:
    return f"SELECT 1 FROM {table} WHERE execution_id = (SELECT max(execution_id) FROM executions)"


@each_case(
    "lock",
    [
        *map(of_execution, ("executions", "attempts", "execution_logs", "execution_events", "dead_letters")),
        "SELECT 1 FROM jobs WHERE job_id = (SELECT job_id FROM executions ORDER BY execution_id DESC LIMIT 1)",
    ],
    ids=["executions", "attempts", "execution_logs", "execution_events", "dead_letters", "jobs"],
)
def test_locked_row_delays_the_deletion_of_no_other_execution(
    database: Database, scheduler_database: Database, lock: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows.delete_all(database)
    rows.add_endpoint(database)
    caplog.clear()
    finish(database, rows.add_executions(database, 5), days_ago=31)
    letters = (
        "INSERT INTO dead_letters (letter_id, execution_id, job_id, endpoint, endpoint_version, error_type,"
        "  attempt_count, failed_at, resolution, resolved_at) "
        f"SELECT execution_id, execution_id, job_id, endpoint, 1, 'X', 1, {OLD}, 'ARCHIVED', {OLD} FROM executions"
    )
    database.fetch(text(letters))
    locked = database.fetch(text("SELECT max(execution_id) AS id FROM executions"))[0].id
    scheduler = chores(scheduler_database)
    with holding(database, lock):
        assert +scheduler.prune() == {"executions": 4, "jobs": 4}
        assert +scheduler.prune() == {}
    assert f"execution {locked} or a row of it is locked by another transaction" in caplog.text
    assert +scheduler.prune() == {"executions": 1, "jobs": 1}


def test_locked_version_delays_the_deletion_of_no_other_version(
    database: Database, scheduler_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = [add_cron_job(database, daily(database)) for _ in range(3)]
    ended = f"UPDATE jobs SET status = 'RETIRED', retired_at = {OLD}, cron_next_run_at = NULL"
    database.fetch(text(ended))
    scheduler = chores(scheduler_database)
    with holding(database, f"SELECT 1 FROM jobs WHERE job_id = '{jobs[1]}'"):
        assert scheduler.prune_versions()["versions"] == 2
        assert scheduler.prune_versions()["versions"] == 0
    assert f"job {jobs[1]} is locked by another transaction; its deletion waits" in caplog.text
    assert scheduler.prune_versions()["versions"] == 1


@each_case("table", ["executions", "attempts"])
def test_locked_row_delays_the_deletion_of_no_other_result(
    database: Database, scheduler_database: Database, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows.delete_all(database)
    rows.add_endpoint(database)
    caplog.clear()
    finish(database, rows.add_executions(database, 5), days_ago=2)
    database.fetch(text("UPDATE executions SET result_retention_ms = 1000"))
    scheduler = chores(scheduler_database)
    with holding(database, of_execution(table)):
        assert scheduler.prune_results()["results"] == 4
        assert scheduler.prune_results()["results"] == 0
    assert "or an attempt of it is locked by another transaction" in caplog.text
    assert scheduler.prune_results()["results"] == 1
