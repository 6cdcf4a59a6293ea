"""Check of callbacks: jobs that would call back a deleted endpoint."""

from collections import Counter
from collections.abc import Iterator

from app.catalog.endpoints.callback_targets import merged
from app.kernel.sql import statement
from app.kernel.unreadable import readable
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import Finding, counted

MAX_JOBS = 10_000  # read of each kind
MAX_NAMED = 5

# Callbacks of jobs with a next run, of paused jobs, and of jobs with a waiting execution: each by its own index.
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


def callbacks(context: ChoreContext) -> Iterator[Finding]:
    """Find deleted endpoints that jobs would call back."""
    jobs, example = Counter[str](), dict[str, str]()
    found = readable(
        lambda row: (row, set(merged(row.of_version, row.own).values())),
        context.database.fetch(CALLBACKS, {"most": MAX_JOBS}),
        "callbacks of job {.job_id}".format,
    )
    for row, names in found:
        for name in names:
            jobs[name] += row.n
            example.setdefault(name, row.job_id)
    if not jobs:
        return
    live = {row.name for row in context.database.fetch(LIVE, {"names": sorted(jobs)})}
    for name in sorted(jobs.keys() - live)[:MAX_NAMED]:
        problem = (
            f"the endpoint {name!r} was deleted, and {counted(jobs[name], 'job')} would call it back ({example[name]})"
        )
        fix = "register it again, or update these jobs (PUT /jobs/ID): their callbacks would be skipped"
        yield Finding("callbacks", problem, fix)
