"""Jobs, and the versions of repeating jobs."""

from sqlalchemy import ForeignKeyConstraint

from schema.states import CatchUp, EndpointType, JobStatus, Overlap, Trigger
from schema.tables.columns import check, count, flag, index, instant, json, one_of, priority_range, region, table, word

_REPEATS = "trigger_type IN ('CRON', 'INTERVAL')"

# One row: the digest of the time zone rules that the next runs of cron jobs were computed with.
time_zone_rules = table(
    "time_zone_rules",
    word("id", key=True),
    word("digest", required=True),
    instant("updated_at", default_now=True),
)

jobs = table(
    "jobs",
    word("job_id", key=True),
    region(),
    word("endpoint", required=True),
    count("endpoint_version", required=True),
    word("endpoint_type", required=True),
    word("trigger_type", required=True),
    word("status", default=JobStatus.ACTIVE),
    count("version", default=1),
    word("previous_version_id"),
    word("replaced_by_id"),
    # Id of the first version, in all later versions, so that a history is one index range.
    word("first_version_id"),
    word("idempotency_key"),
    word("name"),
    # NULL if a job has no labels, so that the index has no entry for it.
    json("labels"),
    json("input"),
    count("max_attempts", default=1),
    # Copied from the retry policy of the endpoint version; sets `expires_at` of executions.
    count("max_age_ms"),
    # NULL: use the queue and the priority of the endpoint.
    word("queue"),
    count("priority"),
    # Key that the endpoint's limits per key compute from the input; '' without such limits.
    word("limit_key", default=""),
    instant("run_at"),
    # Overrides of the endpoint version's callbacks, by event (null: no callback); NULL: no overrides.
    json("callbacks"),
    # Subscribed completion events (app.queue.ending.subscriptions); NULL: failures only.
    count("followed"),
    # The execution whose completion this callback reports.
    word("callback_of"),
    # Trace context of the creating request; NULL without a trace (app.kernel.tracing.context).
    word("trace_context"),
    word("cron_expression"),
    word("cron_timezone"),
    instant("cron_starts_at"),
    instant("cron_ends_at"),
    # INTERVAL jobs: the ms between ticks, from cron_starts_at on or from the end of the previous execution.
    count("interval_ms"),
    flag("fixed_delay", default=False),
    # For CRON and INTERVAL jobs alike.
    instant("cron_next_run_at"),
    instant("cron_last_tick_at"),
    word("catch_up", default=CatchUp.ALL),
    count("max_catch_up"),
    word("overlap", default=Overlap.ALLOW),
    count("skipped_catch_up", default=0),
    count("skipped_overlap", default=0),
    instant("created_at", default_now=True),
    instant("paused_at"),
    instant("retired_at"),
    # Set only for repeating jobs without a newer version: an index on `retired_at` would be written for every job.
    instant("ended_at"),
    word("end_reason"),
    ForeignKeyConstraint(["endpoint"], ["endpoints.name"], name="fk_jobs_endpoint"),
    one_of("trigger_type", "chk_trigger_type", Trigger),
    one_of("status", "chk_status", JobStatus),
    one_of("endpoint_type", "chk_jobs_type_known", EndpointType),
    check("chk_jobs_max_attempts", "max_attempts >= 1"),
    check("chk_jobs_retired_at", "(status = 'RETIRED') = (retired_at IS NOT NULL)"),
    check("chk_jobs_cron", "trigger_type <> 'CRON' OR (cron_expression IS NOT NULL AND cron_timezone IS NOT NULL)"),
    check("chk_jobs_every", "trigger_type <> 'INTERVAL' OR (interval_ms IS NOT NULL AND interval_ms > 0)"),
    check(
        "chk_jobs_next_tick", "cron_next_run_at IS NULL OR (trigger_type IN ('CRON', 'INTERVAL') AND status = 'ACTIVE')"
    ),
    check("chk_jobs_paused_at", "(status = 'PAUSED') = (paused_at IS NOT NULL)"),
    one_of("catch_up", "chk_jobs_catch_up", CatchUp),
    one_of("overlap", "chk_jobs_overlap", Overlap),
    priority_range("jobs"),
    # No index holds the status or `retired_at`, so the end of a job that runs once changes no index.
    # Plain, not partial: NULL keys are distinct on both engines, and ON CONFLICT needs no predicate.
    index("idx_jobs_idempotency", "endpoint, idempotency_key", unique=True),
    index("idx_jobs_created", "created_at, job_id"),
    index("idx_jobs_endpoint", "endpoint, created_at, job_id"),
    index("idx_jobs_name", "name, created_at, job_id", where="name IS NOT NULL"),
    # CockroachDB reads `USING gin` as an inverted index.
    index("idx_jobs_labels", "labels", using="gin", where="labels IS NOT NULL"),
    index("idx_jobs_versions", "first_version_id, version", where="first_version_id IS NOT NULL"),
    # Repeating jobs are few among very many that run once. The first index serves lists; the second finds the
    # repeating jobs of an endpoint, which prevent its deletion.
    index("idx_jobs_recurring", "created_at, job_id", where=_REPEATS),
    index("idx_jobs_recurring_of", "endpoint, created_at, job_id", where=_REPEATS),
    index("idx_jobs_on_pause", "created_at, job_id", where="paused_at IS NOT NULL"),
    # Events are read in the order of the transactions that write them.
    index("idx_jobs_ends", "ended_at, job_id", where="ended_at IS NOT NULL"),
    # Paused and retired jobs have no next run.
    index("idx_jobs_cron_due", "cron_next_run_at, job_id", where="cron_next_run_at IS NOT NULL"),
)

# Changes of very many executions that have not reached all of them. No foreign key, so that no lock on a job waits.
unfinished_changes = table(
    "unfinished_changes",
    word("job_id", key=True),
    word("change_id", required=True),
    word("change", required=True),
    word("actor"),
    # Executions that a cancellation covers: see app.queue.executions.execution_cancellation.
    flag("begun", default=False),
    flag("running", default=False),
    instant("began_at", default_now=True),
)
