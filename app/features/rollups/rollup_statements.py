"""Statements that compute a slot of the rollups: from the rows of attempts, or as the sum of shorter slots.

Each moves a mark from the slot's start to its end, and writes the slot only if it moved it. So of several schedulers
one computes a slot, and a repetition after a lost answer changes nothing.
"""

from collections.abc import Sequence

from app.kernel.sql import hot_statement, statement
from app.queue.reading.attempt_rows import IS_SUCCESS
from schema.rollup_bounds import LATE_COLUMNS, LATE_MS, TOOK_COLUMNS, TOOK_MS

COUNTS = ("attempts", "succeeded", "retried", "failed", "cancelled", "unsent", "uncertain", "lost")
FIGURES = (*COUNTS, *LATE_COLUMNS, *TOOK_COLUMNS)
FAILURE_COUNTS = ("failed", "retried", "uncertain")
MAX_ERROR_TYPES = 50  # in a slot; further types share the type `*`
_SAMPLED = ("due", "oldest_ms", "workers", "in_flight", "slots")


def _class_of(value: str, bounds: Sequence[int]) -> str:
    """Return the expression of the number of the class of a value in milliseconds; NULL without a value."""
    cases = " ".join(f"WHEN {value} <= {bound} THEN {number}" for number, bound in enumerate(bounds))
    return f"CASE WHEN {value} IS NULL THEN NULL {cases} ELSE {len(bounds)} END"


def _lateness(started: str, due: str) -> str:
    """Return the milliseconds from a due instant, which may be infinite in a row that SQL has edited; NULL if none."""
    return f"""CASE WHEN {due} >= {started} THEN 0 WHEN {due} < {started} - INTERVAL '1 year' THEN 31536000000
                  WHEN {due} < {started}
                  THEN CAST(EXTRACT(EPOCH FROM ({started} - {due})) * 1000 AS BIGINT) END"""


def _count(**conditions: str) -> str:
    """Return the sums of `n` under conditions, by the names of their columns; NULL instead of zero."""
    sums = (
        f"CAST(sum(CASE WHEN {condition} THEN n END) AS BIGINT) AS {name}" for name, condition in conditions.items()
    )
    return ",\n             ".join(sums)


def _total(names: Sequence[str], source: str = "") -> str:
    """Return the sums of columns; NULL instead of zero, but for `attempts`."""
    sums = {name: f"CAST(sum({source}{name}) AS BIGINT)" for name in names}
    return ", ".join(
        f"COALESCE({total}, 0) AS {name}" if name == "attempts" else f"{total} AS {name}"
        for name, total in sums.items()
    )


def _in_slot(instant: str) -> str:
    return f"""{instant} >= CAST(:since AS TIMESTAMPTZ) AND {instant} < CAST(:until AS TIMESTAMPTZ)
         AND EXISTS (SELECT 1 FROM moved)"""  # noqa: S608 - a column of this module


_HELD = """held AS MATERIALIZED (
      SELECT step_s FROM rollup_marks WHERE step_s = :mark AND reached = CAST(:since AS TIMESTAMPTZ)
       ORDER BY step_s LIMIT 1 FOR UPDATE SKIP LOCKED)"""
_MOVE = """UPDATE rollup_marks AS m SET reached = CAST(:until AS TIMESTAMPTZ) FROM held
       WHERE m.step_s = held.step_s AND m.step_s = :mark AND m.reached = CAST(:since AS TIMESTAMPTZ)"""


def _has_none(table: str, instant: str) -> str:
    return f"""NOT COALESCE((SELECT true FROM {table}
                        WHERE {instant} >= CAST(:since AS TIMESTAMPTZ) AND {instant} < CAST(:until AS TIMESTAMPTZ)
                          AND {instant} IS NOT NULL
                        ORDER BY {instant} LIMIT 1), false)"""  # noqa: S608 - columns of this module


# Planning the whole computation takes several milliseconds, which a service without deliveries need not spend.
# `held` is 0 if another process has filled the slot, or is filling it.
FILL_EMPTY = hot_statement(
    "rollups.fill_empty",
    """
    WITH {held},
    moved AS (
      {move}
         AND {has_none}
      RETURNING m.step_s),
    put AS (
      INSERT INTO delivery_rollups (endpoint, step_s, slot, attempts)
      SELECT '', CAST(:step AS BIGINT), CAST(:since AS TIMESTAMPTZ), 0 FROM moved
      ON CONFLICT (endpoint, step_s, slot) DO NOTHING RETURNING endpoint)
    SELECT (SELECT count(*) FROM held) AS held, (SELECT count(*) FROM moved) AS moved,
           (SELECT count(*) FROM put) AS endpoints
    """,
    held=_HELD,
    move=_MOVE,
    has_none=" AND ".join(
        (
            _has_none("attempts", "created_at"),
            _has_none("executions", "recorded_at"),
            _has_none("execution_events", "occurred_at"),
        )
    ),
)
# `of_each` has the figures of each endpoint, `broken` the failures by type of error. The busiest endpoints of a slot
# and the most frequent types of error keep their names, the rest becomes '*', and the sum of all endpoints is ''.
# Types are bounded because programs of customers name them, in any number.
_COMPUTE = """
    WITH {held},
    moved AS (
      {move}
      RETURNING m.step_s),
    {of_each},
    {broken},
    named AS MATERIALIZED (
      SELECT endpoint, CASE WHEN row_number() OVER (ORDER BY attempts DESC, endpoint) <= CAST(:endpoints AS BIGINT)
                            THEN endpoint ELSE '*' END AS name
        FROM of_each WHERE endpoint <> '*'
      UNION ALL SELECT '*', '*'),
    typed AS MATERIALIZED (
      SELECT error_type, CASE WHEN row_number() OVER (ORDER BY sum({failures}) DESC, error_type) <= {most_types}
                              THEN error_type ELSE '*' END AS name
        FROM broken WHERE error_type <> '*' GROUP BY error_type
      UNION ALL SELECT '*', '*'),
    put_failures AS (
      INSERT INTO failure_rollups (endpoint, step_s, slot, error_type, {failure_counts})
      SELECT r.name, CAST(:step AS BIGINT), CAST(:since AS TIMESTAMPTZ), t.name, {failures_of_each}
        FROM broken AS b JOIN named AS r ON r.endpoint = b.endpoint JOIN typed AS t ON t.error_type = b.error_type
       GROUP BY r.name, t.name
      UNION ALL
      SELECT '', CAST(:step AS BIGINT), CAST(:since AS TIMESTAMPTZ), t.name, {failures_of_each}
        FROM broken AS b JOIN typed AS t ON t.error_type = b.error_type GROUP BY t.name
      ON CONFLICT (endpoint, step_s, slot, error_type) DO NOTHING RETURNING endpoint),
    put AS (
      INSERT INTO delivery_rollups (endpoint, step_s, slot, {figures})
      SELECT r.name, CAST(:step AS BIGINT), CAST(:since AS TIMESTAMPTZ), {figures_of_each}
        FROM of_each AS o JOIN named AS r ON r.endpoint = o.endpoint GROUP BY r.name
      UNION ALL
      SELECT '', CAST(:step AS BIGINT), CAST(:since AS TIMESTAMPTZ), {figures_of_each}
        FROM moved LEFT JOIN of_each AS o ON true GROUP BY moved.step_s
      ON CONFLICT (endpoint, step_s, slot) DO NOTHING RETURNING endpoint)
    SELECT (SELECT count(*) FROM moved) AS moved, (SELECT count(*) FROM put) AS endpoints,
           (SELECT count(*) FROM put_failures) AS failures
    """
_PARTS = {
    "held": _HELD,
    "move": _MOVE,
    "figures": ", ".join(FIGURES),
    "failure_counts": ", ".join(FAILURE_COUNTS),
    "figures_of_each": _total(FIGURES, "o."),
    "failures_of_each": _total(FAILURE_COUNTS, "b."),
    "failures": " + ".join(f"COALESCE({name}, 0)" for name in FAILURE_COUNTS),
    "most_types": str(MAX_ERROR_TYPES),
}
# A retry moves `run_at`, so attempts of earlier releases, which have no due instant, count as late only if no
# attempt followed. An end without an attempt was neither late nor did it last; an event of a late result, which changes
# no status, is no end. Attempts that are alike are counted first, so that the many sums read few rows.
_DUE = "COALESCE(a.due_at, CASE WHEN COALESCE(a.led_to, '') <> 'RETRYING' THEN e.run_at END)"
_ATTEMPTS = f"""
    cells AS MATERIALIZED (
      SELECT endpoint, outcome, error_type, is_sent, is_uncertain, {_class_of("late_ms", LATE_MS)} AS late,
             {_class_of("took_ms", TOOK_MS)} AS took, count(*) AS n
        FROM (
      SELECT e.endpoint, COALESCE(a.led_to, 'SUCCESS') AS outcome, a.error->>'type' AS error_type, true AS is_sent,
             COALESCE(a.error->>'may_have_been_delivered' = 'true', false) AS is_uncertain,
             {_lateness("a.started_at", _DUE)} AS late_ms, a.duration_ms AS took_ms
        FROM attempts AS a JOIN executions AS e ON e.execution_id = a.execution_id
       WHERE {_in_slot("a.created_at")}
      UNION ALL
      SELECT s.endpoint, 'SUCCESS', NULL, true, false, {_lateness("s.started_at", "s.run_at")}, s.duration_ms
        FROM executions AS s WHERE s.{IS_SUCCESS} AND {_in_slot("s.recorded_at")}
      UNION ALL
      SELECT e.endpoint, c.to_status, CASE WHEN c.to_status = 'FAILED' THEN c.reason END, false, false, NULL, NULL
        FROM execution_events AS c JOIN executions AS e ON e.execution_id = c.execution_id
       WHERE c.to_status IN ('FAILED', 'CANCELLED') AND c.from_status IS DISTINCT FROM c.to_status
         AND {_in_slot("c.occurred_at")}) AS ended
       GROUP BY 1, 2, 3, 4, 5, 6, 7),
    of_each AS MATERIALIZED (
      SELECT endpoint, COALESCE(CAST(sum(CASE WHEN is_sent THEN n END) AS BIGINT), 0) AS attempts,
             {
    _count(
        succeeded="outcome = 'SUCCESS'",
        retried="outcome = 'RETRYING'",
        failed="outcome = 'FAILED'",
        cancelled="outcome = 'CANCELLED'",
        unsent="NOT is_sent",
        uncertain="is_uncertain",
        lost="error_type IN ('WORKER_LOST', 'STUCK')",
        **{name: f"late = {number}" for number, name in enumerate(LATE_COLUMNS)},
        **{name: f"took = {number}" for number, name in enumerate(TOOK_COLUMNS)},
    )
}
        FROM cells GROUP BY endpoint)"""  # noqa: S608 - constants of this module
_BROKEN_ATTEMPTS = f"""broken AS MATERIALIZED (
      SELECT endpoint, error_type,
             {_count(failed="outcome = 'FAILED'", retried="outcome = 'RETRYING'", uncertain="is_uncertain")}
        FROM cells WHERE error_type IS NOT NULL GROUP BY endpoint, error_type)"""  # noqa: S608 - as above
_SLOTS = f"""
    put_samples AS (
      INSERT INTO queue_samples (queue, step_s, slot, {", ".join(_SAMPLED)})
      SELECT queue, CAST(:step AS BIGINT), CAST(:since AS TIMESTAMPTZ), {", ".join(f"max({name})" for name in _SAMPLED)}
        FROM queue_samples WHERE step_s = CAST(:below AS BIGINT) AND {_in_slot("slot")} GROUP BY queue
      ON CONFLICT (queue, step_s, slot) DO NOTHING RETURNING queue),
    of_each AS MATERIALIZED (
      SELECT endpoint, {_total(FIGURES)} FROM delivery_rollups
       WHERE endpoint <> '' AND step_s = CAST(:below AS BIGINT) AND {_in_slot("slot")} GROUP BY endpoint)"""  # noqa: S608
_BROKEN_SLOTS = f"""broken AS MATERIALIZED (
      SELECT endpoint, error_type, {_total(FAILURE_COUNTS)} FROM failure_rollups
       WHERE endpoint <> '' AND step_s = CAST(:below AS BIGINT) AND {_in_slot("slot")}
       GROUP BY endpoint, error_type)"""  # noqa: S608 - as above

FILL = statement("rollups.fill", _COMPUTE, of_each=_ATTEMPTS, broken=_BROKEN_ATTEMPTS, **_PARTS)
FOLD = statement("rollups.fold", _COMPUTE, of_each=_SLOTS, broken=_BROKEN_SLOTS, **_PARTS)
