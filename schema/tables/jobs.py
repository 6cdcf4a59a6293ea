"""Jobs, and the versions of repeating ones."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Table,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from schema.states import (
    CatchUp,
    EndpointType,
    JobStatus,
    Overlap,
    Trigger,
)
from schema.tables.columns import count, flag, instant, metadata, one_of, priority_range, region, word

# One row: the digest of the time zone rules by which the next runs of cron jobs were computed.
time_zone_rules = Table(
    "time_zone_rules",
    metadata,
    word("id", required=True),
    word("digest", required=True),
    instant("updated_at", default_now=True),
    PrimaryKeyConstraint("id", name="pk_time_zone_rules"),
)

jobs = Table(
    "jobs",
    metadata,
    word("job_id", required=True),
    region(),
    word("endpoint", required=True),
    count("endpoint_version", required=True),
    word("endpoint_type", required=True),
    word("trigger_type", required=True),
    word("status", default=JobStatus.ACTIVE),
    count("version", default=1),
    word("previous_version_id"),
    word("replaced_by_id"),
    # The first version, on all later ones, so that a history is one index range.
    word("first_version_id"),
    word("idempotency_key"),
    word("name"),
    # NULL if a job has no labels, so that the index has no entry for it.
    Column("labels", JSONB),
    Column("input", JSONB),
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
    Column("callbacks", JSONB),
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
    PrimaryKeyConstraint("job_id", name="pk_jobs"),
    ForeignKeyConstraint(["endpoint"], ["endpoints.name"], name="fk_jobs_endpoint"),
    one_of("trigger_type", "chk_trigger_type", Trigger),
    one_of("status", "chk_status", JobStatus),
    one_of("endpoint_type", "chk_endpoint_type", EndpointType),
    CheckConstraint("max_attempts >= 1", name="chk_jobs_max_attempts"),
    CheckConstraint("(status = 'RETIRED') = (retired_at IS NOT NULL)", name="chk_jobs_retired_at"),
    CheckConstraint(
        "trigger_type <> 'CRON' OR (cron_expression IS NOT NULL AND cron_timezone IS NOT NULL)",
        name="chk_jobs_cron",
    ),
    CheckConstraint(
        "trigger_type <> 'INTERVAL' OR (interval_ms IS NOT NULL AND interval_ms > 0)", name="chk_jobs_every"
    ),
    CheckConstraint(
        "cron_next_run_at IS NULL OR (trigger_type IN ('CRON', 'INTERVAL') AND status = 'ACTIVE')",
        name="chk_jobs_next_tick",
    ),
    CheckConstraint("(status = 'PAUSED') = (paused_at IS NOT NULL)", name="chk_jobs_paused_at"),
    one_of("catch_up", "chk_jobs_catch_up", CatchUp),
    one_of("overlap", "chk_jobs_overlap", Overlap),
    priority_range("jobs"),
)
# No index holds the status or `retired_at`, so the end of a job that runs once changes no index.
#
# Plain, not partial: NULL keys are distinct on both engines, and ON CONFLICT needs no predicate.
Index("idx_jobs_idempotency", jobs.c.endpoint, jobs.c.idempotency_key, unique=True)
Index("idx_jobs_created", jobs.c.created_at, jobs.c.job_id)
Index("idx_jobs_endpoint", jobs.c.endpoint, jobs.c.created_at, jobs.c.job_id)
Index("idx_jobs_name", jobs.c.name, jobs.c.created_at, jobs.c.job_id, postgresql_where=text("name IS NOT NULL"))
# CockroachDB reads `USING gin` as an inverted index.
Index("idx_jobs_labels", jobs.c.labels, postgresql_using="gin", postgresql_where=text("labels IS NOT NULL"))
Index(
    "idx_jobs_versions",
    jobs.c.first_version_id,
    jobs.c.version,
    postgresql_where=text("first_version_id IS NOT NULL"),
)
# Repeating jobs are few among very many that run once. The first index serves lists; the second finds the repeating
# jobs of an endpoint, which prevent its deletion.
_REPEATS = text("trigger_type IN ('CRON', 'INTERVAL')")
Index("idx_jobs_recurring", jobs.c.created_at, jobs.c.job_id, postgresql_where=_REPEATS)
Index("idx_jobs_recurring_of", jobs.c.endpoint, jobs.c.created_at, jobs.c.job_id, postgresql_where=_REPEATS)
Index("idx_jobs_on_pause", jobs.c.created_at, jobs.c.job_id, postgresql_where=text("paused_at IS NOT NULL"))
# Events are read in the order of the transactions that write them.
Index("idx_jobs_ends", jobs.c.ended_at, jobs.c.job_id, postgresql_where=text("ended_at IS NOT NULL"))
# Paused and retired jobs have no next run.
Index(
    "idx_jobs_cron_due",
    jobs.c.cron_next_run_at,
    jobs.c.job_id,
    postgresql_where=text("cron_next_run_at IS NOT NULL"),
)

# Changes of very many executions that have not reached all of them. No foreign key, so that no lock on a job waits.
unfinished_changes = Table(
    "unfinished_changes",
    metadata,
    word("job_id", required=True),
    word("change_id", required=True),
    word("change", required=True),
    word("actor"),
    # Executions that a cancellation covers: see app.queue.executions.execution_cancellation.
    flag("begun", default=False),
    flag("running", default=False),
    instant("began_at", default_now=True),
    PrimaryKeyConstraint("job_id", name="pk_unfinished_changes"),
)
