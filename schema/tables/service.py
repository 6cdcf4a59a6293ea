"""The service itself: workers and commands to them, API keys, signing keys, audit log, regions."""

from sqlalchemy import CheckConstraint, Column, Index, LargeBinary, PrimaryKeyConstraint, Table, text
from sqlalchemy.dialects.postgresql import JSONB

from schema.states import WorkerStatus
from schema.tables.columns import count, flag, instant, metadata, one_of, word

workers = Table(
    "workers",
    metadata,
    word("worker_id", required=True),
    word("host", required=True),
    count("pid", required=True),
    Column("queues", JSONB, nullable=False, server_default=text("'[]'")),
    count("capacity", default=0),
    count("in_flight", default=0),
    word("status", default=WorkerStatus.ALIVE),
    instant("started_at", default_now=True),
    instant("last_beat_at", default_now=True),
    instant("lease_expires_at", required=True),
    PrimaryKeyConstraint("worker_id", name="pk_workers"),
    one_of("status", "chk_workers_status", WorkerStatus),
)

# What somebody has asked of a worker process. It is acknowledged once it is carried out, and expires otherwise: of that
# nothing is written, as it follows from the instants and the worker's lease.
worker_commands = Table(
    "worker_commands",
    metadata,
    word("command_id", required=True),
    word("worker_id", required=True),
    word("command", required=True),
    word("asked_by", required=True),
    instant("asked_at", default_now=True),
    instant("expires_at", required=True),
    instant("acknowledged_at"),
    PrimaryKeyConstraint("command_id", name="pk_worker_commands"),
)
Index(
    "idx_worker_commands_worker",
    worker_commands.c.worker_id,
    worker_commands.c.asked_at,
    worker_commands.c.command_id,
)

api_keys = Table(
    "api_keys",
    metadata,
    word("key_id", required=True),
    word("name", required=True),
    word("key_hash", required=True),
    Column("scopes", JSONB, nullable=False),
    instant("created_at", default_now=True),
    instant("expires_at"),
    instant("last_used_at"),
    instant("revoked_at"),
    PrimaryKeyConstraint("key_id", name="pk_api_keys"),
)

# Random keys of this database, which all web processes sign with; made by the first that needs one.
signing_keys = Table(
    "signing_keys",
    metadata,
    word("purpose", required=True),
    Column("key", LargeBinary, nullable=False),
    instant("created_at", default_now=True),
    PrimaryKeyConstraint("purpose", name="pk_signing_keys"),
)

# One row: what te_enqueue must know of the settings, as the API that started last has them.
enqueue_settings = Table(
    "enqueue_settings",
    metadata,
    word("id", required=True),
    count("shards", required=True),
    count("look_ahead_ms", required=True),
    instant("updated_at", default_now=True),
    PrimaryKeyConstraint("id", name="pk_enqueue_settings"),
    CheckConstraint("shards >= 1 AND look_ahead_ms >= 0", name="chk_enqueue_settings"),
)

# Who changed what in the catalogue, the keys and the jobs. It holds hashes only, so no value of a secret.
audit_log = Table(
    "audit_log",
    metadata,
    word("audit_id", required=True),
    word("actor_id"),
    word("actor_name", required=True),
    word("action", required=True),
    word("resource_type", required=True),
    word("resource", required=True),
    word("before_hash"),
    word("after_hash"),
    word("request_id"),
    instant("occurred_at", default_now=True),
    PrimaryKeyConstraint("audit_id", name="pk_audit_log"),
)
Index("idx_audit_log_time", audit_log.c.occurred_at, audit_log.c.audit_id)

# The answers to requests with an Idempotency-Key, apart for each API key; without a status while the work of a request
# is under way in several transactions. The fingerprint of the request is keyed with the API key itself.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    word("key_id", required=True),
    word("idempotency_key", required=True),
    word("fingerprint", required=True),
    word("request_id", required=True),
    count("status"),
    word("etag"),
    word("body"),
    instant("created_at", default_now=True),
    PrimaryKeyConstraint("key_id", "idempotency_key", name="pk_idempotency_keys"),
)
Index(
    "idx_idempotency_keys_time",
    idempotency_keys.c.created_at,
    idempotency_keys.c.key_id,
    idempotency_keys.c.idempotency_key,
)

# A row for each process, which shows that it lives. For a service that spans several regions: nothing acts on it yet.
region_heartbeats = Table(
    "region_heartbeats",
    metadata,
    word("region", required=True),
    word("component", required=True),
    instant("last_beat_at", default_now=True),
    word("status", default="ALIVE"),
    Column("metadata", JSONB),
    PrimaryKeyConstraint("region", "component", name="pk_region_heartbeats"),
)

# Read by each process, and not acted on either.
region_status = Table(
    "region_status",
    metadata,
    word("region", required=True),
    flag("alive", default=True),
    instant("failed_at"),
    word("adopted_by"),
    instant("updated_at", default_now=True),
    PrimaryKeyConstraint("region", name="pk_region_status"),
)
