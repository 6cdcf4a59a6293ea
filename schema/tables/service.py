"""The service itself: workers and commands to them, API keys, signing keys, audit log, regions."""

from sqlalchemy import Column, LargeBinary

from schema.job_bounds import NAME_PATTERN
from schema.states import WorkerStatus
from schema.tables.columns import check, count, flag, index, instant, json, one_of, table, word

workers = table(
    "workers",
    word("worker_id", key=True),
    word("host", required=True),
    count("pid", required=True),
    json("queues", default="[]"),
    count("capacity", default=0),
    count("in_flight", default=0),
    word("status", default=WorkerStatus.ALIVE),
    instant("started_at", default_now=True),
    instant("last_beat_at", default_now=True),
    instant("lease_expires_at", required=True),
    one_of("status", "chk_workers_status", WorkerStatus),
)

# Commands to worker processes. The worker acknowledges a command after executing it. Expiry is not written: it follows
# from `expires_at` and the worker's lease.
worker_commands = table(
    "worker_commands",
    word("command_id", key=True),
    word("worker_id", required=True),
    word("command", required=True),
    word("asked_by", required=True),
    instant("asked_at", default_now=True),
    instant("expires_at", required=True),
    instant("acknowledged_at"),
    index("idx_worker_commands_worker", "worker_id, asked_at, command_id"),
)

# Processes of users that run actors, by their connections to workers. A row says that a process is connected while
# `left_at` is NULL and the lease of its worker is valid: nothing renews it.
actor_processes = table(
    "actor_processes",
    word("worker_id", key=True),
    word("session_id", key=True),
    word("host", required=True),
    count("pid"),
    count("threads", required=True),
    # Names of the endpoints of its actors.
    json("endpoints", required=True),
    # Reasons by the endpoint of each actor that it has, but may not run.
    json("refused", default="{}"),
    instant("connected_at", default_now=True),
    instant("left_at"),
)

api_keys = table(
    "api_keys",
    word("key_id", key=True),
    word("name", required=True),
    word("key_hash", required=True),
    json("scopes", required=True),
    instant("created_at", default_now=True),
    instant("expires_at"),
    instant("last_used_at"),
    instant("revoked_at"),
)

# Sessions of the console, and one-time links to it. Only the SHA-256 of a session's secret is stored, as of a key.
console_sessions = table(
    "console_sessions",
    word("session_hash", key=True),
    word("key_id", required=True),
    flag("is_link", default=False),
    instant("created_at", default_now=True),
    instant("last_seen_at", default_now=True),
    instant("expires_at", required=True),
    index("idx_console_sessions_time", "expires_at, session_hash"),
)

# Random signing keys, shared by all web processes; the first process that needs a key creates it.
signing_keys = table(
    "signing_keys",
    word("purpose", key=True),
    Column("key", LargeBinary, nullable=False),
    instant("created_at", default_now=True),
)

# Endpoints, by patterns, for which a role of the database creates jobs by te_enqueue. Without any row, roles that may
# execute the function create jobs of every endpoint. Administrators write the rows.
te_grants = table(
    "te_grants",
    word("role_name", key=True),
    word("pattern", key=True),
    check("chk_te_grants_pattern", f"pattern ~ '{NAME_PATTERN.pattern}'"),
)

# Values of rate limiters and barriers of Dramatiq, which only the functions te_limiter_… change. A row with a party has
# the answer (1 or 0) that the party got: a party which asks again counts once. An expired row counts as absent.
limiter_values = table(
    "limiter_values",
    word("key", key=True),
    word("party", key=True, default=""),
    count("value", required=True),
    instant("expires_at", required=True),
)

# One row: the settings that te_enqueue and te_send need, written by each API process at start.
enqueue_settings = table(
    "enqueue_settings",
    word("id", key=True),
    count("shards", required=True),
    count("look_ahead_ms", required=True),
    # NULL until a process of a release with te_send has started.
    count("max_inline_endpoints"),
    count("stuck_timeout_ms"),
    instant("updated_at", default_now=True),
    check("chk_enqueue_settings", "shards >= 1 AND look_ahead_ms >= 0"),
)

# Changes of the catalog, the keys and the jobs, with their actors. Holds hashes only, so no value of a secret.
audit_log = table(
    "audit_log",
    word("audit_id", key=True),
    word("actor_id"),
    word("actor_name", required=True),
    word("action", required=True),
    word("resource_type", required=True),
    word("resource", required=True),
    word("before_hash"),
    word("after_hash"),
    word("request_id"),
    instant("occurred_at", default_now=True),
    index("idx_audit_log_time", "occurred_at, audit_id"),
)

# Answers to requests with an Idempotency-Key, per API key. The status is NULL while a request that takes several
# transactions is running. The fingerprint of the request is keyed with the API key.
idempotency_keys = table(
    "idempotency_keys",
    word("key_id", key=True),
    word("idempotency_key", key=True),
    word("fingerprint", required=True),
    word("request_id", required=True),
    count("status"),
    word("etag"),
    word("body"),
    instant("created_at", default_now=True),
    index("idx_idempotency_keys_time", "created_at, key_id, idempotency_key"),
)

# Heartbeat of each region and component, for a service that spans several regions. Nothing acts on it yet.
region_heartbeats = table(
    "region_heartbeats",
    word("region", key=True),
    word("component", key=True),
    instant("last_beat_at", default_now=True),
    word("status", default="ALIVE"),
    json("metadata"),
)

# Status of each region: read by every process; nothing acts on it yet.
region_status = table(
    "region_status",
    word("region", key=True),
    flag("alive", default=True),
    instant("failed_at"),
    word("adopted_by"),
    instant("updated_at", default_now=True),
)
