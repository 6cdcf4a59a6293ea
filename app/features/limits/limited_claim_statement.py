"""Statement of a limited claim: an ordinary claim, bounded by the limiters of its partitions.

No limit is ever exceeded: running executions and recent starts are read in the snapshot. Each claim raises the
revision of every limiter it uses, and claims nothing unless all still have the revision of the snapshot (`spent`). So
no concurrent claim can have used them. Executions that end concurrently only make the count too high. The row lock is
an optimisation: a claim skips limiters that are locked or changed, and tries again later.
"""

from app.catalog.endpoints.limits import RING
from app.features.limits.rules import COUNTED, FURTHEST_NS, UNBOUNDED
from app.kernel.sql import hot_statement
from app.queue.claiming.arms import MAX_ARMS, MAY_CLAIM, answer, arms, take

# Common table expressions, in order:
# - rules: limits as the worker knows them; seen, free: rows of limiters in the snapshot and under a lock. A worker that
#   may not claim gets no lock, because executions that it does not claim would count as started.
# - busy: counts rows, so an execution counts until it is completed or reclaimed, whichever process is killed.
# - room: number of executions that each limiter admits, and the earliest instant.
# - open_arms: an arm locks no row of a partition while a concurrent claim holds its limiter, because that claim takes
#   the rows of the partition in order.
# - of_key … chosen: the limiter of the key admits rows in the order of the partitions. The limiter of the endpoint
#   admits the remaining rows by wanted priority, keys by turns. So the chosen rows of a partition are its first rows.
# - used, spent: the limiters that still have the snapshot's revision, raised by the chosen rows.
# - present, noted: hundredths of a window are a ring of rows, by number. After a change of the window, a slot may hold
#   an old hundredth that still counts; it then counts with the new hundredth, for longer than necessary.
# One row of the answer has the states of all limiters, in the order of LimiterState.
_TEXT = """
    WITH clock AS MATERIALIZED (SELECT CAST(EXTRACT(EPOCH FROM now()) * 1000000 AS BIGINT) * 1000 AS now_ns),
    rules AS MATERIALIZED (
      SELECT * FROM unnest(CAST(:gates AS TEXT[]), CAST(:max_in_flight AS BIGINT[]), CAST(:period_ns AS BIGINT[]),
                           CAST(:span_ns AS BIGINT[]), CAST(:gate_ahead_ns AS BIGINT[]),
                           CAST(:most AS BIGINT[]), CAST(:bucket_ns AS BIGINT[]))
               AS r (gate_id, max_in_flight, period_ns, span_ns, ahead_ns, most, bucket_ns)),
    seen AS MATERIALIZED (SELECT gate_id, revision, tat_ns FROM gates WHERE gate_id = ANY (CAST(:gates AS TEXT[]))),
    free AS MATERIALIZED (
      SELECT gate_id, revision FROM gates WHERE gate_id = ANY (CAST(:gates AS TEXT[]))
         AND {may_claim}
       ORDER BY gate_id LIMIT {most_limiters} FOR UPDATE SKIP LOCKED),
    busy AS MATERIALIZED (
      SELECT e.endpoint AS gate_id, count(*) AS running
        FROM unnest(CAST(:capped AS TEXT[])) AS k (endpoint)
        JOIN executions AS e ON e.status = 'RUNNING' AND e.endpoint = k.endpoint
       GROUP BY e.endpoint
      UNION ALL
      SELECT e.endpoint || e.limit_key, count(*)
        FROM unnest(CAST(:key_endpoints AS TEXT[]), CAST(:keys AS TEXT[])) AS k (endpoint, limit_key)
        JOIN executions AS e ON e.status = 'RUNNING' AND e.endpoint = k.endpoint AND e.limit_key = k.limit_key
       GROUP BY e.endpoint, e.limit_key),
    started AS MATERIALIZED (
      SELECT w.gate_id, CAST(sum(w.started) AS BIGINT) AS total, min(w.bucket) AS oldest
        FROM gate_windows AS w JOIN rules AS r ON r.gate_id = w.gate_id CROSS JOIN clock AS c
       WHERE w.gate_id = ANY (CAST(:gates AS TEXT[])) AND w.bucket > c.now_ns - {hundredths} * r.bucket_ns
       GROUP BY w.gate_id),
    room AS MATERIALIZED (
      SELECT r.gate_id, r.period_ns, r.span_ns, r.ahead_ns, r.bucket_ns, c.now_ns, s.revision,
             s.gate_id IS NULL AS is_missing, COALESCE(f.revision = s.revision, false) AS is_ours,
             COALESCE(b.running, 0) AS running, COALESCE(w.total, 0) AS total, w.oldest,
             CASE WHEN s.tat_ns > c.now_ns + r.span_ns + {furthest_ns} THEN c.now_ns + r.span_ns
                  ELSE GREATEST(s.tat_ns, c.now_ns) END AS tat_ns,
             CASE WHEN f.revision = s.revision
                  THEN LEAST(COALESCE(r.max_in_flight - COALESCE(b.running, 0), {unbounded}),
                             COALESCE(r.most - COALESCE(w.total, 0), {unbounded}))
                  ELSE 0 END AS slots
        FROM rules AS r CROSS JOIN clock AS c
        LEFT JOIN seen AS s ON s.gate_id = r.gate_id
        LEFT JOIN free AS f ON f.gate_id = r.gate_id
        LEFT JOIN busy AS b ON b.gate_id = r.gate_id
        LEFT JOIN started AS w ON w.gate_id = r.gate_id),
    open_arms AS MATERIALIZED (
      SELECT l.arm
        FROM unnest(CAST(:arms AS BIGINT[]), CAST(:arm_endpoints AS TEXT[]), CAST(:arm_keys AS TEXT[]))
             AS l (arm, endpoint, limit_key)
       WHERE NOT EXISTS (SELECT 1 FROM room AS m
                          WHERE NOT m.is_ours AND m.gate_id IN (l.endpoint, l.endpoint || l.limit_key))),
    {arms},
    of_key AS (
      SELECT due.*, row_number() OVER (PARTITION BY endpoint, limit_key ORDER BY arm, run_at, execution_id) AS place
        FROM due),
    fits_key AS (
      SELECT k.*, COALESCE(m.tat_ns + k.place * m.period_ns - m.span_ns - m.now_ns, 0) AS key_wait_ns
        FROM of_key AS k LEFT JOIN room AS m ON m.gate_id = k.endpoint || k.limit_key AND k.limit_key <> ''
       WHERE m.gate_id IS NULL
          OR (k.place <= m.slots
              AND COALESCE(m.tat_ns + k.place * m.period_ns - m.span_ns - m.now_ns <= m.ahead_ns, true))),
    of_endpoint AS (
      SELECT k.*, row_number() OVER (PARTITION BY endpoint
                                     ORDER BY (CAST(:ranks AS BIGINT[]))[k.arm + 1], place, arm, run_at, execution_id)
                  AS turn
        FROM fits_key AS k),
    chosen AS MATERIALIZED (
      SELECT k.execution_id, k.run_at, k.endpoint, k.limit_key, k.arm,
             GREATEST(k.key_wait_ns, COALESCE(m.tat_ns + k.turn * m.period_ns - m.span_ns - m.now_ns, 0)) AS wait_ns
        FROM of_endpoint AS k LEFT JOIN room AS m ON m.gate_id = k.endpoint
       WHERE m.gate_id IS NULL
          OR (k.turn <= m.slots
              AND COALESCE(m.tat_ns + k.turn * m.period_ns - m.span_ns - m.now_ns <= m.ahead_ns, true))),
    used AS MATERIALIZED (
      SELECT u.gate_id, count(*) AS amount
        FROM (SELECT endpoint AS gate_id FROM chosen
              UNION ALL SELECT endpoint || limit_key FROM chosen WHERE limit_key <> '') AS u
        JOIN room AS m ON m.gate_id = u.gate_id
       GROUP BY u.gate_id),
    spent AS (
      UPDATE gates AS g
         SET revision = g.revision + 1, used_at = now(),
             tat_ns = CASE WHEN m.period_ns IS NULL THEN g.tat_ns ELSE m.tat_ns + used.amount * m.period_ns END
        FROM used JOIN room AS m ON m.gate_id = used.gate_id
       WHERE g.gate_id = used.gate_id AND g.revision = m.revision
      RETURNING g.gate_id),
    present AS (
      SELECT used.gate_id, m.now_ns - m.now_ns % m.bucket_ns AS bucket, used.amount,
             m.now_ns - {hundredths} * m.bucket_ns AS over,
             CAST((m.now_ns - m.now_ns % m.bucket_ns) / m.bucket_ns AS BIGINT) % {ring} AS slot
        FROM used JOIN room AS m ON m.gate_id = used.gate_id JOIN spent ON spent.gate_id = used.gate_id
       WHERE m.bucket_ns IS NOT NULL),
    noted AS (
      INSERT INTO gate_windows AS w (gate_id, slot, bucket, started)
      SELECT p.gate_id, p.slot, p.bucket,
             p.amount + CASE WHEN o.bucket > p.over THEN o.started ELSE 0 END
        FROM present AS p LEFT JOIN gate_windows AS o ON o.gate_id = p.gate_id AND o.slot = p.slot
      ON CONFLICT (gate_id, slot) DO UPDATE
         SET started = excluded.started, bucket = GREATEST(w.bucket, excluded.bucket)
      RETURNING w.gate_id),
    claimed AS ({claimed}){answer}"""


def _limited(count: int) -> str:
    states = """,
           CASE WHEN row_number() OVER () = 1 THEN (
             SELECT jsonb_agg(jsonb_build_array(gate_id, is_missing, is_ours, running, total,
                                                COALESCE(oldest - now_ns, 0), tat_ns - now_ns)) FROM room)
           END AS limiters"""
    return _TEXT.format(
        may_claim=MAY_CLAIM,
        most_limiters=2 * MAX_ARMS,
        hundredths=COUNTED,
        unbounded=UNBOUNDED,
        furthest_ns=FURTHEST_NS,
        ring=RING,
        arms=arms(count, ", endpoint, limit_key", " AND EXISTS (SELECT 1 FROM open_arms AS o WHERE o.arm = {number})"),
        claimed=take("chosen", ", chosen.wait_ns", " AND (SELECT count(*) FROM spent) = (SELECT count(*) FROM used)"),
        answer=answer(states),
    )


CLAIM_LIMITED_1 = hot_statement("executions.claim_limited_1", _limited(1))
CLAIM_LIMITED_16 = hot_statement("executions.claim_limited_16", _limited(MAX_ARMS))
