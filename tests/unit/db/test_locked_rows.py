"""Every statement that changes or locks several rows states the effect of a row locked by another transaction.

The scan reads each table of a statement. WAITS has the tables of locked rows that a statement waits for, with the
reason why this delays no other user. SKIPS has the statements that skip locked rows, by test. A wait ends after the
lock timeout: 5 s, tried twice, or 100 ms where a reason says so. The error is 503, or the next run tries again.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schema.tables.columns import metadata
from tests.statements import STATEMENTS

TESTS = Path(__file__).parents[2]
KEYS = {table.name: [column.name for column in table.primary_key] for table in metadata.sorted_tables}
REQUEST = "a client's own request for these rows: it gets 503, and other requests do not wait"
CHUNK = "a client's own request, or a batch of a bulk job: 100 ms, then it is halved, and the locked row is refused"
OF_JOB = "executions of one job: its request waits; a chore waits 100 ms, and continues with other jobs"
HALVED = "results of a worker: after the first failure they wait 100 ms, in halves"
CALLED = "runs in the transaction of the caller, which has the locks or waits 100 ms"
CHILD = "behind the locked row of its parent, which all statements of the product lock or change first"
GROUP = "a group has one endpoint, so a locked endpoint delays its own jobs; an open `te_enqueue` of the same key, too"
WAITS = {
    "callbacks.lock_named endpoints": CALLED,
    "commands.acknowledge worker_commands": "the commands to the worker that runs it; it waits 100 ms",
    "dead_letters.archive dead_letters": CHUNK,
    "dead_letters.leave executions": CALLED,
    "dead_letters.lock dead_letters": CHUNK,
    "dead_letters.lock_of_executions dead_letters": CHUNK,
    "dead_letters.resolve_as dead_letters": CHUNK,
    "dead_letters.resolve_of_executions dead_letters": CHUNK,
    "executions.bring_forward executions": REQUEST,
    "executions.cancel executions": CHUNK,
    "executions.claim_limited_1 gate_windows": CHILD,
    "executions.claim_limited_16 gate_windows": CHILD,
    "executions.complete executions": HALVED,
    "executions.complete jobs": HALVED,
    "executions.complete_subscribed executions": HALVED,
    "executions.complete_subscribed jobs": HALVED,
    "executions.endpoints_to_retry endpoints": CHUNK,
    "executions.hold executions": OF_JOB,
    "executions.jobs_to_retry jobs": CHUNK,
    "executions.let_go executions": OF_JOB,
    "executions.lock executions": CHUNK,
    "executions.lock_for_rescheduling executions": CHUNK,
    "executions.lock_for_retry executions": CHUNK,
    "executions.lock_of_job executions": OF_JOB,
    "executions.lock_ticks_in_pause executions": OF_JOB,
    **dict.fromkeys(
        [f"executions.prune {table}" for table in ("executions", "dead_letters", "jobs")],
        "tried first, with a lock timeout of 100 ms; executions.prune_free skips locked rows",
    ),
    **dict.fromkeys(
        [f"executions.prune_children {table}" for table in ("attempts", "execution_events", "execution_logs")],
        "tried first, with a lock timeout of 100 ms; executions.prune_free_children skips locked rows",
    ),
    "executions.release executions": HALVED,
    "executions.release gate_windows": HALVED,
    "executions.release gates": HALVED,
    "executions.release jobs": HALVED,
    "executions.reopen_one_shots jobs": CHUNK,
    "executions.request_abort executions": CHUNK,
    "executions.request_cancel executions": CHUNK,
    "executions.reschedule executions": CHUNK,
    "executions.retry executions": CHUNK,
    "executions.settle_jobs jobs": CALLED,
    "jobs.create_one_shots endpoints": GROUP,
    "jobs.create_repeating endpoints": REQUEST,
    "notifications.forget_conditions notification_conditions": REQUEST,
    "notifications.forget_groups notification_groups": REQUEST,
    "notifications.forget_parts notification_parts": REQUEST,
    "notifications.forget_subjects notification_subjects": REQUEST,
    "notifications.note_subjects notification_subjects": "the subjects of one rule; the chore waits 100 ms for a rule",
    "rollups.clear delivery_rollups": "a command of the operator, behind the locked mark of rebuilds",
    "rollups.clear_failures failure_rollups": "a command of the operator, behind the locked mark of rebuilds",
    "rollups.mark rollup_marks": "a command of the operator: only another rebuild locks these rows",
    "routes.clear routes": "a change of the routes; only such a change locks them, behind routes.lock",
    "routes.move endpoints": "a change of the routes; it waits 100 ms",
    "secrets.reencrypt secrets": "a command of the operator",
    "te_grants.lock te_grants": "a command of the operator; only such commands lock these rows",
    "targets.change breaker_counts": "the counts of one breaker, behind its locked row",
    "targets.publish breaker_counts": CHILD,
    **dict.fromkeys(
        [
            f"workflow_nodes.{name} workflow_nodes"
            for name in ["add_items", "recount_parents", "reported", "run_again", "taken_back", "write"]
        ],
        "behind the locked row of their workflow; only settlements lock other nodes of it, which no step changes",
    ),
    "workflow_nodes.mark_retried workflow_nodes": CHUNK,
    "workflow_nodes.settle workflow_nodes": CALLED,
    "workflows.execution_to_continue executions": "a step or a request: it waits 100 ms, and is undone as a whole",
    "workflows.lock_endpoints endpoints": REQUEST,
    "workflows.lock_of_attempt workflows": "the start of one attempt of an execution, on a thread of its own",
    "workflows.touch_for_retry workflows": CHUNK,
}
SKIPS = {
    "test_locked_alert_delays_the_end_of_no_other_alert": [
        "notifications.end_conditions",
        *(f"notifications.ended_{event}" for event in ("breaker_opened", "queue_late", "schedule_overdue")),
        *(f"notifications.ended_{event}" for event in ("worker_lost", "workflow_failed", "workflow_late")),
    ],
    "test_locked_breaker_delays_no_result_of_other_targets": ["targets.publish"],
    "test_locked_execution_delays_no_other_claim": [f"executions.claim_{arms}" for arms in (1, 4, 16)],
    "test_locked_execution_delays_no_other_event": ["execution_ends.take"],
    "test_locked_execution_delays_no_other_promotion": ["executions.promote"],
    "test_locked_execution_delays_the_reclaim_of_no_other": ["executions.reclaim"],
    "test_locked_job_delays_no_other_next_run_by_new_time_zone_rules": ["jobs.move_next_runs"],
    "test_locked_job_delays_no_other_restart_of_a_fixed_delay": ["jobs.restart_stalled"],
    "test_locked_job_delays_no_other_retirement": ["jobs.retire_finished"],
    "test_locked_job_delays_no_tick_of_other_jobs": ["executions.materialize", "executions.take_due_jobs"],
    "test_locked_row_delays_no_other_end_of_an_exhausted_execution": ["executions.exhaust"],
    "test_locked_row_delays_no_other_expiry": ["executions.expire"],
    "test_locked_row_delays_no_other_retry_of_a_paused_job": ["executions.hold_retries"],
    "test_locked_row_delays_the_deletion_of_no_other_execution": [
        "executions.prune_free",
        "executions.prune_free_children",
    ],
    "test_locked_row_delays_the_deletion_of_no_other_result": ["results.prune"],
    "test_locked_mark_is_left_to_the_process_that_computes_the_slot": ["rollups.leave_out"],
    "test_locked_row_delays_the_deletion_of_no_other_row": [
        *(
            "actor_processes.prune",
            "audit.prune",
            "bulk_operations.prune",
            "commands.prune",
            "console_sessions.prune",
            "health.prune",
        ),
        *("idempotency.prune", "rollups.prune", "rollups.prune_failures", "rollups.prune_samples"),
        *("breaker_pruning.prune", "breaker_pruning.prune_counts", "breaker_pruning.prune_events"),
        *("inline_endpoints.prune", "limiter_values.prune", "limiters.prune", "redrives.prune"),
        *("superseded_configs.prune", "workers.prune"),
        *("notifications.prune_groups", "notifications.prune_subjects"),
        *(f"notifications.prune_astray_{table}" for table in ("conditions", "groups", "parts", "subjects")),
        *("workflow_edges.prune", "workflow_events.prune", "workflow_nodes.prune"),
    ],
    "test_locked_limiter_or_execution_delays_no_claim_of_other_keys": [
        f"executions.claim_limited_{arms}" for arms in (1, 16)
    ],
    "test_locked_rule_delays_the_messages_of_no_other_rule": ["notifications.take_parts"],
    "test_locked_version_delays_the_deletion_of_no_other_version": ["jobs.prune_versions"],
}
CHANGE = re.compile(
    r"\bDELETE FROM (?P<deleted>\w+)|(?<!FOR )(?<!KEY )(?<!DO )\bUPDATE (?P<updated>\w+)"
    r"|\bINSERT INTO (?P<upserted>\w+)(?=[^;]*\bDO UPDATE\b)"
    r"|\bFOR (?:NO KEY |KEY )?(?:UPDATE|SHARE)\b(?: OF (?P<alias>\w+))?(?P<skips> SKIP LOCKED)?"
)
INNERMOST = re.compile(r"\(([^()]*)\)")


def queries(sql: str) -> Iterator[str]:
    """Return each query of a statement without subqueries; other parentheses become brackets."""
    while found := INNERMOST.search(sql):
        is_query = "SELECT" in found[1] or CHANGE.search(found[1]) is not None
        if is_query:
            yield found[1]
        sql = sql[: found.start()] + ("<query>" if is_query else f"[{found[1]}]") + sql[found.end() :]
    yield sql


def is_one_row(query: str, table: str) -> bool:
    if "DO UPDATE" in query:
        return "VALUES [" in query
    return all(re.search(rf"\b{column} = (?:CAST\[)?[:']", query) for column in KEYS[table])


def changes(sql: str) -> Iterator[tuple[str, bool]]:
    """Return each table of which several rows are changed or locked, and whether locked rows are skipped."""
    for query in queries(re.sub(r"\s+", " ", sql)):
        for found in CHANGE.finditer(query):
            table = found["deleted"] or found["updated"] or found["upserted"]
            if table is None:
                named = rf" (?:AS )?{found['alias']}\b" if found["alias"] else ""
                origin = re.search(rf"\b(?:FROM|JOIN) (\w+){named}", query)
                assert origin is not None, query
                table = origin[1]
            if not is_one_row(query, table):
                yield table, bool(found["skips"])


FOUND = {name: set(changes(clause.text)) for name, clause in STATEMENTS if not name.endswith("_in_regions")}
SKIPPED = {name: {table for table, skips in found if skips} for name, found in FOUND.items()}
WAITING = {f"{name} {table}" for name, found in FOUND.items() for table, _ in found if table not in SKIPPED[name]}


def test_each_table_in_a_statement_of_several_rows_skips_locked_rows_or_says_why_it_waits() -> None:
    assert sorted(WAITING - WAITS.keys()) == [], "skip locked rows, or add the reason to WAITS"
    assert sorted(WAITS.keys() - WAITING) == [], "remove these from WAITS"


def test_each_statement_that_skips_locked_rows_is_tested_with_a_locked_row() -> None:
    tested = [name for names in SKIPS.values() for name in names]
    assert sorted(tested) == sorted(name for name, skipped in SKIPPED.items() if skipped)
    sources = "\n".join(path.read_text() for path in (TESTS / "contract").rglob("test_*.py"))
    assert [test for test in SKIPS if f"def {test}(" not in sources] == []


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("UPDATE jobs SET paused_at = now() WHERE job_id = :job", set()),
        ("UPDATE jobs SET paused_at = now() WHERE endpoint = :endpoint", {("jobs", False)}),
        ("DELETE FROM executions WHERE execution_id IN (SELECT :id)", {("executions", False)}),
        ("WITH a AS (SELECT job_id FROM jobs FOR SHARE SKIP LOCKED) SELECT 1", {("jobs", True)}),
        ("SELECT 1 FROM jobs AS j JOIN endpoints AS e ON true FOR UPDATE OF e", {("endpoints", False)}),
        ("INSERT INTO gates (gate_id) VALUES (:id) ON CONFLICT (gate_id) DO UPDATE SET revision = 1", set()),
        ("INSERT INTO gates SELECT 1 ON CONFLICT (gate_id) DO UPDATE SET revision = 1", {("gates", False)}),
    ],
)
def test_changes_of_several_rows_are_found(sql: str, found: set[tuple[str, bool]]) -> None:
    assert set(changes(sql)) == found
