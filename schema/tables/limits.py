"""Flow: limiters of endpoints, breakers of targets, routes from endpoints to queues, and paused queues."""

from sqlalchemy import CheckConstraint, Index, PrimaryKeyConstraint, Table

from schema.states import BreakerState, RouteSource
from schema.tables.columns import count, instant, metadata, one_of, word

# Limiters: a row per endpoint with limits, and a row per limit key in use. Each claim increments the revision, so that
# two claims never count the same executions in flight. Names of endpoints hold no '='; limit keys begin with '='.
gates = Table(
    "gates",
    metadata,
    word("gate_id", required=True),
    count("revision", default=0),
    # Theoretical arrival time of the token bucket: ns since 1970 by the database's clock.
    count("tat_ns", default=0),
    instant("used_at", default_now=True),
    PrimaryKeyConstraint("gate_id", name="pk_gates"),
)

# Executions started in each bucket of a sliding window. The slots are a ring, which bounds the rows of a window.
gate_windows = Table(
    "gate_windows",
    metadata,
    word("gate_id", required=True),
    count("slot", required=True),
    # Start of the bucket, in ns since 1970.
    count("bucket", required=True),
    count("started", required=True),
    PrimaryKeyConstraint("gate_id", "slot", name="pk_gate_windows"),
)

# Breakers of targets. Only targets with a failure in their window have a row; without a row a breaker is closed.
breakers = Table(
    "breakers",
    metadata,
    word("target", required=True),
    word("state", default=BreakerState.CLOSED),
    count("revision", default=0),
    word("reason"),
    # Counts that opened the breaker.
    count("failed"),
    count("results"),
    instant("changed_at", default_now=True),
    instant("open_until"),
    word("probe_worker"),
    instant("probe_until"),
    instant("watched_until", required=True),
    PrimaryKeyConstraint("target", name="pk_breakers"),
    one_of("state", "chk_breakers_state", BreakerState),
)

# Results of a watched target over all processes, by bucket of the breaker's window and by endpoint. If a process has
# very many endpoints, the endpoints with the fewest failures are counted together, under an empty name.
breaker_counts = Table(
    "breaker_counts",
    metadata,
    word("target", required=True),
    count("slot", required=True),
    word("endpoint", required=True),
    count("ok", required=True),
    count("failed", required=True),
    PrimaryKeyConstraint("target", "slot", "endpoint", name="pk_breaker_counts"),
)

breaker_events = Table(
    "breaker_events",
    metadata,
    word("event_id", required=True),
    word("target", required=True),
    word("from_state", required=True),
    word("to_state", required=True),
    word("reason", required=True),
    # The worker, or the user who closed the breaker manually.
    word("actor"),
    instant("open_until"),
    instant("occurred_at", default_now=True),
    PrimaryKeyConstraint("event_id", name="pk_breaker_events"),
    one_of("from_state", "chk_breaker_events_from", BreakerState),
    one_of("to_state", "chk_breaker_events_to", BreakerState),
)
Index(
    "idx_breaker_events_target",
    breaker_events.c.target,
    breaker_events.c.occurred_at,
    breaker_events.c.event_id,
)
Index("idx_breaker_events_time", breaker_events.c.occurred_at, breaker_events.c.event_id)

# Endpoints that resolve to watched targets, as found by the workers that send to them.
breaker_endpoints = Table(
    "breaker_endpoints",
    metadata,
    word("target", required=True),
    word("endpoint", required=True),
    PrimaryKeyConstraint("target", "endpoint", name="pk_breaker_endpoints"),
)
Index("idx_breaker_endpoints_endpoint", breaker_endpoints.c.endpoint, breaker_endpoints.c.target)

# Routes from names of endpoints to queues: the first pattern that matches decides.
routes = Table(
    "routes",
    metadata,
    count("position", required=True),
    word("pattern", required=True),
    word("queue", required=True),
    word("source", required=True),
    PrimaryKeyConstraint("position", name="pk_routes"),
    one_of("source", "chk_routes_source", RouteSource),
    CheckConstraint("position >= 0", name="chk_routes_position"),
)

# Queues from which no executions are claimed. Each change increments the revision of the flow rules.
paused_queues = Table(
    "paused_queues",
    metadata,
    word("queue", required=True),
    instant("paused_at", default_now=True),
    word("paused_by", required=True),
    PrimaryKeyConstraint("queue", name="pk_paused_queues"),
)
