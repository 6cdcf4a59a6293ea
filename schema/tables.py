"""Every table, in types that CockroachDB and PostgreSQL share (TEXT, BYTEA, BIGINT, BOOLEAN, TIMESTAMPTZ, JSONB).

Ids are made by the client (UUID4), so a repeated statement is recognised and no key leads with a time.
Indexes that workers read in time order lead with `queue` and `shard`; list pages are read by (created_at, id).
"""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from schema.states import (
    AttemptStatus,
    EndpointType,
    ExecutionStatus,
    JobStatus,
    LogLevel,
    Trigger,
    WorkerStatus,
)

metadata = MetaData()

NOW = text("now()")


def _time(name: str, *, default_now: bool = False, required: bool = False) -> Column[datetime]:
    return Column(
        name,
        DateTime(timezone=True),
        nullable=not (required or default_now),
        server_default=NOW if default_now else None,
    )


def _text(name: str, *, default: str | None = None, required: bool = False) -> Column[str]:
    server_default = None if default is None else text(f"'{default}'")
    return Column(name, Text, nullable=not (required or default is not None), server_default=server_default)


def _count(name: str, *, default: int | None = None, required: bool = False) -> Column[int]:
    server_default = None if default is None else text(str(default))
    return Column(name, BigInteger, nullable=not (required or default is not None), server_default=server_default)


def _one_of(column: str, name: str, values: type[StrEnum]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(v.value) for v in values)})", name=name)


def _region() -> Column[str]:
    # Stays TEXT with one value until the multi-region step (brief 1, "What to Stub").
    return _text("crdb_region", default="default")


payload_specs = Table(
    "payload_specs",
    metadata,
    _text("name", required=True),
    Column("schema_json", JSONB, nullable=False),
    _time("created_at", default_now=True),
    _time("updated_at", default_now=True),
    PrimaryKeyConstraint("name", name="pk_payload_specs"),
)

configs = Table(
    "configs",
    metadata,
    _text("name", required=True),
    Column("values_json", JSONB, nullable=False),
    _time("created_at", default_now=True),
    _time("updated_at", default_now=True),
    PrimaryKeyConstraint("name", name="pk_configs"),
)

secrets = Table(
    "secrets",
    metadata,
    _text("name", required=True),
    Column("encrypted_value", LargeBinary, nullable=False),
    _time("created_at", default_now=True),
    _time("updated_at", default_now=True),
    PrimaryKeyConstraint("name", name="pk_secrets"),
)

# One row: counts changes of configs and secrets, read with each claim so that a change is seen by the next one.
catalog_revision = Table(
    "catalog_revision",
    metadata,
    _text("id", required=True),
    _count("revision", default=0),
    PrimaryKeyConstraint("id", name="pk_catalog_revision"),
)

endpoints = Table(
    "endpoints",
    metadata,
    _text("name", required=True),
    _text("endpoint_type", required=True),
    _text("payload_spec_ref"),
    _text("config_ref"),
    Column("spec", JSONB, nullable=False),
    Column("retry_policy", JSONB),
    _count("version", default=1),
    _time("created_at", default_now=True),
    _time("updated_at", default_now=True),
    _time("deleted_at"),
    PrimaryKeyConstraint("name", name="pk_endpoints"),
    ForeignKeyConstraint(["payload_spec_ref"], ["payload_specs.name"], name="fk_endpoints_payload_spec"),
    ForeignKeyConstraint(["config_ref"], ["configs.name"], name="fk_endpoints_config"),
    _one_of("endpoint_type", "chk_endpoints_type", EndpointType),
)
Index("idx_endpoints_type", endpoints.c.endpoint_type)

# Immutable: a job keeps the version it was created with, workers cache a version for ever.
endpoint_versions = Table(
    "endpoint_versions",
    metadata,
    _text("endpoint", required=True),
    _count("version", required=True),
    _text("endpoint_type", required=True),
    _text("payload_spec_ref"),
    _text("config_ref"),
    Column("secret_refs", JSONB, nullable=False, server_default=text("'[]'")),
    Column("spec", JSONB, nullable=False),
    Column("retry_policy", JSONB),
    _time("created_at", default_now=True),
    PrimaryKeyConstraint("endpoint", "version", name="pk_endpoint_versions"),
    _one_of("endpoint_type", "chk_endpoint_versions_type", EndpointType),
)

jobs = Table(
    "jobs",
    metadata,
    _text("job_id", required=True),
    _region(),
    _text("endpoint", required=True),
    _count("endpoint_version", required=True),
    _text("endpoint_type", required=True),
    _text("trigger_type", required=True),
    _text("status", default=JobStatus.ACTIVE),
    _count("version", default=1),
    _text("previous_version_id"),
    _text("replaced_by_id"),
    _text("idempotency_key"),
    Column("input", JSONB),
    _count("max_attempts", default=1),
    _time("run_at"),
    _text("cron_expression"),
    _text("cron_timezone"),
    _time("cron_starts_at"),
    _time("cron_ends_at"),
    _time("cron_next_run_at"),
    _time("cron_last_tick_at"),
    _time("created_at", default_now=True),
    _time("retired_at"),
    PrimaryKeyConstraint("job_id", name="pk_jobs"),
    ForeignKeyConstraint(["endpoint"], ["endpoints.name"], name="fk_jobs_endpoint"),
    _one_of("trigger_type", "chk_jobs_trigger", Trigger),
    _one_of("status", "chk_jobs_status", JobStatus),
    _one_of("endpoint_type", "chk_jobs_endpoint_type", EndpointType),
    CheckConstraint("(status = 'RETIRED') = (retired_at IS NOT NULL)", name="chk_jobs_retired_at"),
    CheckConstraint(
        "trigger_type <> 'CRON' OR (cron_expression IS NOT NULL AND cron_timezone IS NOT NULL)",
        name="chk_jobs_cron",
    ),
    CheckConstraint(
        "cron_next_run_at IS NULL OR (trigger_type = 'CRON' AND status = 'ACTIVE')", name="chk_jobs_next_run"
    ),
)
# Plain, not partial: NULL keys are distinct on both engines, and ON CONFLICT needs no predicate.
Index("idx_jobs_idempotency", jobs.c.endpoint, jobs.c.idempotency_key, unique=True)
Index("idx_jobs_created", jobs.c.created_at, jobs.c.job_id)
Index("idx_jobs_endpoint", jobs.c.endpoint, jobs.c.created_at, jobs.c.job_id)
# A retired cron job has no next run. `status` stays out of the predicate, so that retiring a one-shot job
# touches no index and PostgreSQL can update the row in place (HOT).
Index(
    "idx_jobs_cron_due",
    jobs.c.cron_next_run_at,
    jobs.c.job_id,
    postgresql_where=text("cron_next_run_at IS NOT NULL"),
)

executions = Table(
    "executions",
    metadata,
    _text("execution_id", required=True),
    _region(),
    _text("job_id", required=True),
    _text("endpoint", required=True),
    _count("endpoint_version", required=True),
    _text("endpoint_type", required=True),
    _text("queue", required=True),
    _count("shard", required=True),
    _text("idempotency_key"),
    _text("status", default=ExecutionStatus.PENDING),
    Column("output", JSONB),
    _count("attempt_count", default=0),
    _count("max_attempts", default=1),
    # Kept after the claim ends: with attempt_count it is the witness of who held the row last.
    _text("worker_id"),
    _time("run_at", default_now=True),
    _time("scheduled_at", default_now=True),
    _time("started_at"),
    _time("completed_at"),
    _count("duration_ms"),
    _time("created_at", default_now=True),
    PrimaryKeyConstraint("execution_id", name="pk_executions"),
    ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_executions_job"),
    _one_of("status", "chk_executions_status", ExecutionStatus),
    CheckConstraint("attempt_count >= 0 AND attempt_count <= max_attempts", name="chk_executions_attempts"),
    CheckConstraint(
        "status <> 'RUNNING' OR (worker_id IS NOT NULL AND started_at IS NOT NULL AND attempt_count >= 1)",
        name="chk_executions_running",
    ),
    CheckConstraint(
        "(status IN ('SUCCESS', 'FAILED', 'CANCELLED')) = (completed_at IS NOT NULL)",
        name="chk_executions_completed",
    ),
)
Index("idx_executions_tick", executions.c.job_id, executions.c.idempotency_key, unique=True)
Index("idx_executions_job", executions.c.job_id, executions.c.created_at, executions.c.execution_id)
# The claim reads exactly this index: equality on queue and shard, then its ORDER BY.
Index(
    "idx_executions_pickup",
    executions.c.queue,
    executions.c.shard,
    executions.c.run_at,
    executions.c.execution_id,
    postgresql_where=text("status IN ('QUEUED', 'RETRYING')"),
)
Index(
    "idx_executions_pending",
    executions.c.shard,
    executions.c.run_at,
    executions.c.execution_id,
    postgresql_where=text("status = 'PENDING'"),
)
Index(
    "idx_executions_running",
    executions.c.worker_id,
    executions.c.execution_id,
    postgresql_where=text("status = 'RUNNING'"),
)
Index(
    "idx_executions_finished",
    executions.c.shard,
    executions.c.completed_at,
    executions.c.execution_id,
    postgresql_where=text("completed_at IS NOT NULL"),
)

attempts = Table(
    "attempts",
    metadata,
    _text("attempt_id", required=True),
    _region(),
    _text("execution_id", required=True),
    _count("attempt_number", required=True),
    _text("status", required=True),
    _text("worker_id"),
    _time("started_at", required=True),
    _time("completed_at"),
    _count("duration_ms"),
    Column("output", JSONB),
    Column("error", JSONB),
    _time("created_at", default_now=True),
    PrimaryKeyConstraint("attempt_id", name="pk_attempts"),
    ForeignKeyConstraint(["execution_id"], ["executions.execution_id"], name="fk_attempts_execution"),
    UniqueConstraint("execution_id", "attempt_number", name="uq_attempts_exec_number"),
    _one_of("status", "chk_attempts_status", AttemptStatus),
)

execution_logs = Table(
    "execution_logs",
    metadata,
    _text("log_id", required=True),
    _region(),
    _text("execution_id", required=True),
    _count("attempt_number", required=True),
    _text("level", required=True),
    _text("message", required=True),
    _time("logged_at", default_now=True),
    PrimaryKeyConstraint("log_id", name="pk_execution_logs"),
    ForeignKeyConstraint(["execution_id"], ["executions.execution_id"], name="fk_logs_execution"),
    _one_of("level", "chk_logs_level", LogLevel),
)
Index(
    "idx_logs_by_execution",
    execution_logs.c.execution_id,
    execution_logs.c.logged_at,
    execution_logs.c.log_id,
)

workers = Table(
    "workers",
    metadata,
    _text("worker_id", required=True),
    _text("host", required=True),
    _count("pid", required=True),
    Column("queues", JSONB, nullable=False, server_default=text("'[]'")),
    _count("capacity", default=0),
    _count("in_flight", default=0),
    _text("status", default=WorkerStatus.ALIVE),
    _time("started_at", default_now=True),
    _time("last_beat_at", default_now=True),
    _time("lease_expires_at", required=True),
    PrimaryKeyConstraint("worker_id", name="pk_workers"),
    _one_of("status", "chk_workers_status", WorkerStatus),
)

api_keys = Table(
    "api_keys",
    metadata,
    _text("key_id", required=True),
    _text("name", required=True),
    _text("key_hash", required=True),
    Column("scopes", JSONB, nullable=False),
    _time("created_at", default_now=True),
    _time("expires_at"),
    _time("last_used_at"),
    _time("revoked_at"),
    PrimaryKeyConstraint("key_id", name="pk_api_keys"),
)

# Multi-region stubs (brief 1): present, written by nobody yet.
region_heartbeats = Table(
    "region_heartbeats",
    metadata,
    _text("region", required=True),
    _text("component", required=True),
    _time("last_beat_at", default_now=True),
    _text("status", default="ALIVE"),
    Column("metadata", JSONB),
    PrimaryKeyConstraint("region", "component", name="pk_region_heartbeats"),
)

region_status = Table(
    "region_status",
    metadata,
    _text("region", required=True),
    Column("alive", Boolean, nullable=False, server_default=text("true")),
    _time("failed_at"),
    _text("adopted_by"),
    _time("updated_at", default_now=True),
    PrimaryKeyConstraint("region", name="pk_region_status"),
)
