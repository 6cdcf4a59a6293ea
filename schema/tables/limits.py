"""Flow: limiters of endpoints, breakers of targets, routes from endpoints to queues, and paused queues."""

from schema.states import BreakerState, RouteSource
from schema.tables.columns import check, count, index, instant, one_of, table, word

# Limiters: a row per endpoint with limits, and a row per limit key in use. Each claim increments the revision, so that
# two claims never count the same executions in flight. Names of endpoints hold no '='; limit keys begin with '='.
gates = table(
    "gates",
    word("gate_id", key=True),
    count("revision", default=0),
    # Theoretical arrival time of the token bucket: ns since 1970 by the database's clock.
    count("tat_ns", default=0),
    instant("used_at", default_now=True),
)

# Executions started in each bucket of a sliding window. The slots are a ring, which bounds the rows of a window.
gate_windows = table(
    "gate_windows",
    word("gate_id", key=True),
    count("slot", key=True),
    # Start of the bucket, in ns since 1970.
    count("bucket", required=True),
    count("started", required=True),
)

# Breakers of targets. Only targets with a failure in their window have a row; without a row a breaker is closed.
breakers = table(
    "breakers",
    word("target", key=True),
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
    one_of("state", "chk_breakers_state", BreakerState),
)

# Results of a watched target over all processes, by bucket of the breaker's window and by endpoint. If a process has
# very many endpoints, the endpoints with the fewest failures are counted together, under an empty name.
breaker_counts = table(
    "breaker_counts",
    word("target", key=True),
    count("slot", key=True),
    word("endpoint", key=True),
    count("ok", required=True),
    count("failed", required=True),
)

breaker_events = table(
    "breaker_events",
    word("event_id", key=True),
    word("target", required=True),
    word("from_state", required=True),
    word("to_state", required=True),
    word("reason", required=True),
    # The worker, or the user who closed the breaker manually.
    word("actor"),
    instant("open_until"),
    instant("occurred_at", default_now=True),
    one_of("from_state", "chk_breaker_events_from", BreakerState),
    one_of("to_state", "chk_breaker_events_to", BreakerState),
    index("idx_breaker_events_target", "target, occurred_at, event_id"),
    index("idx_breaker_events_time", "occurred_at, event_id"),
)

# Endpoints that resolve to watched targets, as found by the workers that send to them.
breaker_endpoints = table(
    "breaker_endpoints",
    word("target", key=True),
    word("endpoint", key=True),
    index("idx_breaker_endpoints_endpoint", "endpoint, target"),
)

# Routes from names of endpoints to queues: the first pattern that matches decides.
routes = table(
    "routes",
    count("position", key=True),
    word("pattern", required=True),
    word("queue", required=True),
    word("source", required=True),
    one_of("source", "chk_routes_source", RouteSource),
    check("chk_routes_position", "position >= 0"),
)

# Queues from which no executions are claimed. Each change increments the revision of the flow rules.
paused_queues = table(
    "paused_queues",
    word("queue", key=True),
    instant("paused_at", default_now=True),
    word("paused_by", required=True),
)
