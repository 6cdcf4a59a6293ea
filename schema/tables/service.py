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

# Commands to worker processes. The worker acknowledges a command after executing it. Expiry is not written: it follows
# from `expires_at` and the worker's lease.
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

# Random signing keys, shared by all web processes; the first process that needs a key creates it.
signing_keys = Table(
    "signing_keys",
    metadata,
    word("purpose", required=True),
    Column("key", LargeBinary, nullable=False),
    instant("created_at", default_now=True),
    PrimaryKeyConstraint("purpose", name="pk_signing_keys"),
)

# One row: the settings that te_enqueue needs, written by each API process at start.
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

# Changes of the catalog, the keys and the jobs, with their actors. Holds hashes only, so no value of a secret.
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

# Answers to requests with an Idempotency-Key, per API key. The status is NULL while a request that takes several
# transactions is running. The fingerprint of the request is keyed with the API key.
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

# Heartbeat of each region and component, for a service that spans several regions. Nothing acts on it yet.
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

# Status of each region: read by every process; nothing acts on it yet.
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
