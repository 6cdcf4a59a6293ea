"""Gated claims: from the lanes of endpoints that are limited, no more than their gates allow."""

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from app.db import Database
from app.executions.claiming.arms import ANSWER, COUNTED, MOST_ARMS, arms, parameters, take
from app.executions.claiming.lane import Lane, Wanted
from app.executions.claiming.taken import Found, Taken
from app.executions.database_clock import DatabaseClock
from app.executions.model import Claim
from app.flow.bucket import FURTHEST_NS
from app.flow.gates import RING, UNBOUNDED, Gate, GateState
from app.flow.window import COUNTED as HUNDREDTHS
from app.sql import hot_statement


# Why no limit is ever passed. What runs is counted, and what has started is read, by the snapshot. Each claim through a
# gate raises the gate's revision, and it claims nothing unless every gate it uses is still at the snapshot's revision
# (`spent`): so nobody has claimed through it since. What ends meanwhile only makes the count too high. The lock is a
# hint here as well: whoever finds a gate locked, or changed, leaves it alone and comes back.
# What runs is counted by its rows, so it holds its place until it was concluded or taken back, whoever is killed.
#
# A lane's rows go through the gate of their key, in the order of the lanes. What is left goes through the endpoint's,
# in the order of the priorities that were wanted, keys by turns. So what is chosen of a lane is the first part of it.
#
# Hundredths of a window are kept in a ring, by their number. Where the window was another one before, the slot may hold
# an old hundredth that counts still: it is counted with the new one, longer than it had to be.
def _gated(count: int) -> str:
    return f"""
    WITH clock AS MATERIALIZED (SELECT CAST(EXTRACT(EPOCH FROM now()) * 1000000 AS BIGINT) * 1000 AS now_ns),
    rules AS MATERIALIZED (
      SELECT * FROM unnest(CAST(:gates AS TEXT[]), CAST(:max_in_flight AS BIGINT[]), CAST(:period_ns AS BIGINT[]),
                           CAST(:span_ns AS BIGINT[]), CAST(:gate_ahead_ns AS BIGINT[]),
                           CAST(:most AS BIGINT[]), CAST(:bucket_ns AS BIGINT[]))
               AS r (gate_id, max_in_flight, period_ns, span_ns, ahead_ns, most, bucket_ns)),
    seen AS MATERIALIZED (SELECT gate_id, revision, tat_ns FROM gates WHERE gate_id = ANY (CAST(:gates AS TEXT[]))),
    free AS MATERIALIZED (
      SELECT gate_id, revision FROM gates WHERE gate_id = ANY (CAST(:gates AS TEXT[]))
       ORDER BY gate_id LIMIT {2 * MOST_ARMS} FOR UPDATE SKIP LOCKED),
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
       WHERE w.gate_id = ANY (CAST(:gates AS TEXT[])) AND w.bucket > c.now_ns - {HUNDREDTHS} * r.bucket_ns
       GROUP BY w.gate_id),
    room AS MATERIALIZED (
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
        LEFT JOIN started AS w ON w.gate_id = r.gate_id),
    {arms(count, ", endpoint, limit_key")},
    of_key AS (
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
      RETURNING w.gate_id),
    claimed AS ({
        take(
            "chosen",
            ", chosen.wait_ns",
            " AND (SELECT count(*) FROM spent) = (SELECT count(*) FROM used)",
        )
    })
    {ANSWER},
           CASE WHEN row_number() OVER () = 1 THEN (
             SELECT jsonb_agg(jsonb_build_array(gate_id, is_missing, is_ours, running, total,
                                                COALESCE(oldest - now_ns, 0), tat_ns - now_ns)) FROM room)
           END AS gates
      FROM (SELECT 1 AS one) AS always
      LEFT JOIN {COUNTED} ON true
      LEFT JOIN claimed ON claimed.lane = counted.lane
    """  # noqa: S608 - constants of this package


CLAIM_GATED_1 = hot_statement("executions.claim_gated_1", _gated(1))
CLAIM_GATED_16 = hot_statement("executions.claim_gated_16", _gated(MOST_ARMS))


def claim_gated(
    database: Database,
    *,
    queue: str,
    worker_id: str,
    wanted: Sequence[Wanted],
    gates: Sequence[Gate],
    ahead_ms: int,
    clock: DatabaseClock | None = None,
) -> Taken:
    """Claim as `claim` does, from at most MOST_ARMS lanes, what the gates of these lanes let through.

    A claim may be for an instant that is later than its `run_at`, up to a gate's `ahead_ns` from now. A lane of which
    anything was found but not claimed is never found empty, nor is one whose gate somebody else is going through: that
    one may have locked what it does not claim. Raises as `claim`.
    """
    count, question = (1, CLAIM_GATED_1) if len(wanted) == 1 else (MOST_ARMS, CLAIM_GATED_16)
    params = parameters(wanted, count) | _gates(gates) | {"ranks": _ranks(wanted)}
    asked_at = time.monotonic()
    rows = database.fetch(
        question, params | {"queue": queue, "worker": worker_id, "ahead_ms": ahead_ms}, repeatable=False
    )
    taken = Taken.of(rows, wanted, queue=queue, worker_id=worker_id, asked_at=asked_at, clock=clock)
    waits = {row.execution_id: row.wait_ns / 1e9 for row in rows if row.execution_id is not None}
    windows = [(gate.gate_id, gate.rate.bucket_ns) for gate in gates if gate.rate is not None and gate.rate.is_sliding]
    states = {gate_id: GateState(*state) for gate_id, *state in rows[0].gates}
    contended = {gate_id for gate_id, state in states.items() if not state.is_ours}
    return replace(
        taken,
        claims=[_held(claim, waits[claim.execution_id], windows) for claim in taken.claims],
        found=_found(rows, wanted, taken, contended),
        gates=states,
    )


def _held(claim: Claim, wait_seconds: float, windows: Sequence[tuple[str, int]]) -> Claim:
    gates = (claim.endpoint, claim.endpoint + claim.limit_key)
    counting = tuple(one for one in windows if one[0] in gates)
    return claim._replace(due_in_seconds=max(claim.due_in_seconds, wait_seconds), windows=counting)


def _found(
    rows: Sequence[Any], wanted: Sequence[Wanted], taken: Taken, contended: Collection[str]
) -> dict[Lane, Found]:
    """Return what was found of each lane; where a gate holds something back, or may do so, the lane counts as full."""
    claimed: dict[int, list[Any]] = {number: [] for number in range(len(wanted))}
    for row in rows:
        if row.execution_id is not None:
            claimed[row.counted_lane].append(row.run_at)
    found = dict(taken.found)
    for number, (lane, quota, since) in enumerate(wanted):
        is_contended = lane.endpoint in contended or lane.endpoint + lane.limit_key in contended
        if is_contended or len(claimed[number]) < found[lane].rows:
            found[lane] = Found(quota, max(claimed[number], default=since))
    return found


def _gates(gates: Sequence[Gate]) -> dict[str, object]:
    buckets = [None if gate.rate is None or gate.rate.is_sliding else gate.rate for gate in gates]
    windows = [None if gate.rate is None or not gate.rate.is_sliding else gate.rate for gate in gates]
    capped = [gate for gate in gates if gate.max_in_flight is not None]
    keys = [gate for gate in capped if gate.limit_key]
    return {
        "gates": [gate.gate_id for gate in gates],
        "max_in_flight": [gate.max_in_flight for gate in gates],
        "period_ns": [rate and rate.period_ns for rate in buckets],
        "span_ns": [rate and rate.span_ns for rate in buckets],
        "gate_ahead_ns": [gate.ahead_ns for gate in gates],
        "most": [rate and rate.count for rate in windows],
        "bucket_ns": [rate and rate.bucket_ns for rate in windows],
        "capped": [gate.endpoint for gate in capped if not gate.limit_key],
        "key_endpoints": [gate.endpoint for gate in keys],
        "keys": [gate.limit_key for gate in keys],
    }


def _ranks(wanted: Sequence[Wanted]) -> list[int]:
    """Number the runs of lanes that are wanted with the same priority."""
    ranks = [0]
    for before, after in pairwise(wanted):
        ranks.append(ranks[-1] + (before.lane.priority != after.lane.priority))
    return ranks
