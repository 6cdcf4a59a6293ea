"""Rollups: deliveries counted by endpoint and slot of time, and samples of queues, for charts of up to 90 days.

No statement of a job writes them: a chore computes each slot once from the rows of the attempts. Zero is NULL, which
takes no room.
"""

from schema.rollup_bounds import LATE_COLUMNS, TOOK_COLUMNS
from schema.tables.columns import count, index, instant, table, word

# Endpoint '' is the sum of all endpoints, with a row also for a slot without deliveries: a slot without that row was
# never counted. Endpoint '*' is the sum of the endpoints without rows of their own. `unsent` are the ends without an
# attempt, which `failed` and `cancelled` include.
delivery_rollups = table(
    "delivery_rollups",
    word("endpoint", key=True),
    count("step_s", key=True),
    instant("slot", key=True),
    count("attempts", required=True),
    count("succeeded"),
    count("retried"),
    count("failed"),
    count("cancelled"),
    count("unsent"),
    count("uncertain"),
    count("lost"),
    *(count(name) for name in (*LATE_COLUMNS, *TOOK_COLUMNS)),
    # All endpoints in a slot. Its end takes a few hundred inserts every ten seconds: too few for a hash in front.
    index("idx_delivery_rollups_slot", "step_s, slot, endpoint"),
)

failure_rollups = table(
    "failure_rollups",
    word("endpoint", key=True),
    count("step_s", key=True),
    instant("slot", key=True),
    word("error_type", key=True),
    count("failed"),
    count("retried"),
    count("uncertain"),
    index("idx_failure_rollups_slot", "step_s, slot, endpoint, error_type"),
)

# The most within a slot. Queue '' is the whole fleet; only its rows have slots.
queue_samples = table(
    "queue_samples",
    word("queue", key=True),
    count("step_s", key=True),
    instant("slot", key=True),
    count("due", required=True),
    count("oldest_ms"),
    count("workers", required=True),
    count("in_flight"),
    count("slots"),
    index("idx_queue_samples_slot", "step_s, slot, queue"),
)

# End of the last slot that was computed, by length of slots.
rollup_marks = table("rollup_marks", count("step_s", key=True), instant("reached", required=True))
