"""What is told when something ends: callbacks without an endpoint, messages that do not go out, remains of rules."""

from collections import Counter
from collections.abc import Iterator
from functools import partial

from app.catalog.endpoints.callback_targets import merged
from app.features.doctor.finding import MOST, Finding, Patient, counted
from app.features.notifications import notification_pruning
from app.kernel.db import Database
from app.kernel.sql import statement

_LATE_SECONDS = 60
_MOST_JOBS = 10_000  # of each kind that are looked at
_MOST_NAMED = 5

# Who is called back by what has a next run, is paused, or has an execution that waits: each by an index of its own.
CALLBACKS = statement(
    "doctor.callbacks",
    """
    WITH found AS MATERIALIZED (
      (SELECT job_id, endpoint, endpoint_version, callbacks FROM jobs WHERE cron_next_run_at IS NOT NULL
        ORDER BY cron_next_run_at, job_id LIMIT :most)
      UNION ALL
      (SELECT job_id, endpoint, endpoint_version, callbacks FROM jobs WHERE paused_at IS NOT NULL
        ORDER BY created_at, job_id LIMIT :most)
      UNION ALL
      (SELECT j.job_id, j.endpoint, j.endpoint_version, j.callbacks FROM (
         SELECT job_id FROM executions WHERE completed_at IS NULL ORDER BY job_id, execution_id LIMIT :most) AS e
         JOIN jobs AS j ON j.job_id = e.job_id
        WHERE j.trigger_type NOT IN ('CRON', 'INTERVAL')))
    SELECT min(f.job_id) AS job_id, count(*) AS n, f.callbacks AS own, v.callbacks AS of_version
      FROM found AS f JOIN endpoint_versions AS v ON v.endpoint = f.endpoint AND v.version = f.endpoint_version
     WHERE f.callbacks IS NOT NULL OR v.callbacks IS NOT NULL
     GROUP BY f.callbacks, v.callbacks
    """,
)
LIVE = statement(
    "doctor.live_endpoints",
    "SELECT name FROM endpoints WHERE name = ANY (CAST(:names AS TEXT[])) AND deleted_at IS NULL",
)
LATE_PARTS = statement(
    "doctor.late_parts",
    """
    SELECT rule, count(*) AS n FROM (
      SELECT p.rule FROM notification_parts AS p JOIN notification_rules AS r ON r.name = p.rule
       WHERE p.created_at < now() - CAST(:late AS BIGINT) * INTERVAL '1 second' LIMIT :most) AS late
     GROUP BY rule ORDER BY rule
    """,
)
LATE_GROUPS = statement(
    "doctor.late_groups",
    """
    SELECT g.rule FROM notification_groups AS g JOIN notification_rules AS r ON r.name = g.rule
     WHERE g.closed_at IS NULL
       AND COALESCE(g.waits_until, g.opened_at) < now() - CAST(:late AS BIGINT) * INTERVAL '1 second'
     ORDER BY g.rule LIMIT :most
    """,
)


def callbacks(patient: Patient) -> Iterator[Finding]:
    """Find endpoints that are gone and that jobs would call back."""
    jobs, example = Counter[str](), dict[str, str]()
    for row in patient.database.fetch(CALLBACKS, {"most": _MOST_JOBS}):
        for name in set(merged(row.of_version, row.own).values()):
            jobs[name] += row.n
            example.setdefault(name, row.job_id)
    if not jobs:
        return
    live = {row.name for row in patient.database.fetch(LIVE, {"names": sorted(jobs)})}
    for name in sorted(jobs.keys() - live)[:_MOST_NAMED]:
        problem = (
            f"the endpoint {name!r} is gone, and {counted(jobs[name], 'jobs')} would call it back ({example[name]})"
        )
        fix = "register it again, or update these jobs (PUT /jobs/ID): nobody would be told of their ends"
        yield Finding("callbacks", problem, fix)


def messages(patient: Patient) -> Iterator[Finding]:
    """Find what notification rules have to tell and no scheduler makes a message of."""
    params = {"late": _LATE_SECONDS, "most": MOST}
    waiting = {row.rule for row in patient.database.fetch(LATE_PARTS, params)}
    waiting |= {row.rule for row in patient.database.fetch(LATE_GROUPS, params)}
    if waiting:
        named = ", ".join(sorted(waiting)[:_MOST_NAMED]) + (", …" if len(waiting) > _MOST_NAMED else "")
        problem = f"what {len(waiting)} notification rules have to tell has been waiting for a minute too long: {named}"
        fix = "start a scheduler of this release (`python -m app.scheduler`), or look for `notif` in its log"
        yield Finding("notifications", problem, fix)


def remains(patient: Patient) -> Iterator[Finding]:
    """Find what is left of notification rules that were deleted."""
    number = notification_pruning.astray(patient.database, limit=MOST)
    if number:
        problem = f"{counted(number, 'notes')} are left of notification rules that are gone"
        fix = "--fix deletes them, as a scheduler would within an hour: a new rule of that name would take them over"
        yield Finding("notifications", problem, fix, partial(_delete_remains, patient.database))


def _delete_remains(database: Database) -> int:
    deleted = 0
    while number := sum(notification_pruning.prune_astray(database, limit=MOST)):
        deleted += number
    return deleted
