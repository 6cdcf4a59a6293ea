"""Rules that make executions wait, and the statement that creates each rule."""

RULES = {
    "limits": "UPDATE endpoints SET limits = '{\"max_in_flight\": 1}' WHERE name = :name",
    "a pause": "UPDATE endpoints SET paused_at = now() WHERE name = :name",
    "a pause of its queue": "INSERT INTO paused_queues (queue, paused_by) VALUES ('http', :name)",
    "an open breaker": (
        "WITH b AS (INSERT INTO breakers (target, state, open_until, watched_until) "
        "VALUES ('t', 'open', now() + INTERVAL '1 minute', now()) RETURNING target) "
        "INSERT INTO breaker_endpoints (target, endpoint) SELECT b.target, :name FROM b"
    ),
}
