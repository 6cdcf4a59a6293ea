"""Parts of the statements that claim through gates: what the gates allow, what is chosen by it, and what is noted.

Why no limit is ever passed. What runs is counted, and what has started is read, by the snapshot. Each claim through a
gate raises the gate's revision, and it claims nothing unless every gate it uses is still at the snapshot's revision
(`spent`): so nobody has claimed through it since. What ends meanwhile only makes the count too high. The lock is a hint
here as well: whoever finds a gate locked, or changed, leaves it alone and comes back.
"""

from app.features.limits.sliding_window import COUNTED as HUNDREDTHS
from app.features.limits.store import RING, UNBOUNDED
from app.features.limits.token_bucket import FURTHEST_NS
from app.queue.claiming.arms import MAY_CLAIM, MOST_ARMS

# Their rules, as they are known to whoever claims, and their rows by the snapshot and under a lock. Who may not claim
# gets none: what it does not claim would be counted as started.
GATES = f"""clock AS MATERIALIZED (SELECT CAST(EXTRACT(EPOCH FROM now()) * 1000000 AS BIGINT) * 1000 AS now_ns),
    rules AS MATERIALIZED (
      SELECT * FROM unnest(CAST(:gates AS TEXT[]), CAST(:max_in_flight AS BIGINT[]), CAST(:period_ns AS BIGINT[]),
                           CAST(:span_ns AS BIGINT[]), CAST(:gate_ahead_ns AS BIGINT[]),
                           CAST(:most AS BIGINT[]), CAST(:bucket_ns AS BIGINT[]))
               AS r (gate_id, max_in_flight, period_ns, span_ns, ahead_ns, most, bucket_ns)),
    seen AS MATERIALIZED (SELECT gate_id, revision, tat_ns FROM gates WHERE gate_id = ANY (CAST(:gates AS TEXT[]))),
    free AS MATERIALIZED (
      SELECT gate_id, revision FROM gates WHERE gate_id = ANY (CAST(:gates AS TEXT[]))
         AND {MAY_CLAIM}
       ORDER BY gate_id LIMIT {2 * MOST_ARMS} FOR UPDATE SKIP LOCKED)"""  # noqa: S608 - constants of this package

# What runs is counted by its rows, so it holds its place until it was concluded or taken back, whoever is killed.
COUNTS = f"""busy AS MATERIALIZED (
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
       WHERE w.gate_id = ANY (CAST(:gates AS TEXT[])) AND w.bucket > c.now_ns - {HUNDREDTHS} * r.bucket_ns
       GROUP BY w.gate_id)"""  # noqa: S608 - constants of this package

# How many each lets through, and from when on.
ROOM = f"""room AS MATERIALIZED (
      SELECT r.gate_id, r.period_ns, r.span_ns, r.ahead_ns, r.bucket_ns, c.now_ns, s.revision,
             s.gate_id IS NULL AS is_missing, COALESCE(f.revision = s.revision, false) AS is_ours,
             COALESCE(b.running, 0) AS running, COALESCE(w.total, 0) AS total, w.oldest,
             CASE WHEN s.tat_ns > c.now_ns + r.span_ns + {FURTHEST_NS} THEN c.now_ns + r.span_ns
                  ELSE GREATEST(s.tat_ns, c.now_ns) END AS tat_ns,
             CASE WHEN f.revision = s.revision
                  THEN LEAST(COALESCE(r.max_in_flight - COALESCE(b.running, 0), {UNBOUNDED}),
                             COALESCE(r.most - COALESCE(w.total, 0), {UNBOUNDED}))
                  ELSE 0 END AS slots
        FROM rules AS r CROSS JOIN clock AS c
        LEFT JOIN seen AS s ON s.gate_id = r.gate_id
        LEFT JOIN free AS f ON f.gate_id = r.gate_id
        LEFT JOIN busy AS b ON b.gate_id = r.gate_id
        LEFT JOIN started AS w ON w.gate_id = r.gate_id)"""  # noqa: S608 - constants of this package

# Nothing is locked of a lane whose gate somebody else is going through: it is that one's to take, in its order.
IS_OURS = """
         AND NOT EXISTS (SELECT 1 FROM room
                          WHERE NOT is_ours
                            AND gate_id IN (CAST(:endpoint_{number} AS TEXT),
                                            CAST(:endpoint_{number} AS TEXT) || CAST(:key_{number} AS TEXT)))"""

# A lane's rows go through the gate of their key, in the order of the lanes. What is left goes through the endpoint's,
# in the order of the priorities that were wanted, keys by turns. So what is chosen of a lane is the first part of it.
CHOSEN = """of_key AS (
      SELECT due.*, row_number() OVER (PARTITION BY endpoint, limit_key ORDER BY lane, run_at, execution_id) AS place
        FROM due),
    fits_key AS (
      SELECT k.*, COALESCE(m.tat_ns + k.place * m.period_ns - m.span_ns - m.now_ns, 0) AS key_wait_ns
        FROM of_key AS k LEFT JOIN room AS m ON m.gate_id = k.endpoint || k.limit_key AND k.limit_key <> ''
       WHERE m.gate_id IS NULL
          OR (k.place <= m.slots
              AND COALESCE(m.tat_ns + k.place * m.period_ns - m.span_ns - m.now_ns <= m.ahead_ns, true))),
    of_endpoint AS (
      SELECT k.*, row_number() OVER (PARTITION BY endpoint
                                     ORDER BY (CAST(:ranks AS BIGINT[]))[k.lane + 1], place, lane, run_at, execution_id)
                  AS turn
        FROM fits_key AS k),
    chosen AS MATERIALIZED (
      SELECT k.execution_id, k.run_at, k.endpoint, k.limit_key, k.lane,
             GREATEST(k.key_wait_ns, COALESCE(m.tat_ns + k.turn * m.period_ns - m.span_ns - m.now_ns, 0)) AS wait_ns
        FROM of_endpoint AS k LEFT JOIN room AS m ON m.gate_id = k.endpoint
       WHERE m.gate_id IS NULL
          OR (k.turn <= m.slots
              AND COALESCE(m.tat_ns + k.turn * m.period_ns - m.span_ns - m.now_ns <= m.ahead_ns, true)))"""

# The gates that were still as the snapshot has them, raised by what is chosen.
SPENT = """used AS MATERIALIZED (
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
      RETURNING g.gate_id)"""

# Hundredths of a window are kept in a ring, by their number. Where the window was another one before, the slot may hold
# an old hundredth that counts still: it is counted with the new one, longer than it had to be.
NOTED = f"""present AS (
      SELECT used.gate_id, m.now_ns - m.now_ns % m.bucket_ns AS bucket, used.amount,
             m.now_ns - {HUNDREDTHS} * m.bucket_ns AS over,
             CAST((m.now_ns - m.now_ns % m.bucket_ns) / m.bucket_ns AS BIGINT) % {RING} AS slot
        FROM used JOIN room AS m ON m.gate_id = used.gate_id JOIN spent ON spent.gate_id = used.gate_id
       WHERE m.bucket_ns IS NOT NULL),
    noted AS (
      INSERT INTO gate_windows AS w (gate_id, slot, bucket, started)
      SELECT p.gate_id, p.slot, p.bucket,
             p.amount + CASE WHEN o.bucket > p.over THEN o.started ELSE 0 END
        FROM present AS p LEFT JOIN gate_windows AS o ON o.gate_id = p.gate_id AND o.slot = p.slot
      ON CONFLICT (gate_id, slot) DO UPDATE
         SET started = excluded.started, bucket = GREATEST(w.bucket, excluded.bucket)
      RETURNING w.gate_id)"""  # noqa: S608 - constants of this package

IS_SPENT = " AND (SELECT count(*) FROM spent) = (SELECT count(*) FROM used)"

# One row of the answer tells all of them, as app.features.limits.store.GateState has them.
STATES = """CASE WHEN row_number() OVER () = 1 THEN (
             SELECT jsonb_agg(jsonb_build_array(gate_id, is_missing, is_ours, running, total,
                                                COALESCE(oldest - now_ns, 0), tat_ns - now_ns)) FROM room)
           END AS gates"""
