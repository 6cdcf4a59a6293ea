"""Release: return unsent claims."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from app.catalog.endpoints.limits import RING
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from app.queue.claiming.partition import Partition
from app.queue.ending.execution_events import ChangeReason
from app.queue.ending.outbox_rows import put_ends_of
from app.queue.executions.execution_model import ClaimKey
from app.queue.executions.settlement import ONE_SHOT, settlement_of

# For executions that a stopping process releases. Other processes have read beyond their instants, so that only a full
# scan would find them; due now, they are found like new executions.
DUE_NOW_MS = 1
MIN_DEFERRAL_MS = 1000.0
MAX_DEFERRAL_MS = 300_000.0

# The attempt number is given back, because nothing was sent. started_at is part of the fence: the same worker may have
# claimed the row again, under the same number, before a repeat of this statement arrives. An execution with a request
# to cancel ends here. No attempt records the claim and the release, so both become events, if they are noted: a busy or
# unavailable target would cause endless events, and the explanation of an execution shows the reason better. The end is
# always an event.
# A cancelled, replaced or paused job was not yet able to stop this execution, because it was RUNNING. The lock makes a
# concurrent cancellation or pause either visible here, or wait and then find the execution released. A replaced job
# leaves its later ticks to the next version, which skips ticks that were claimed: such a tick stays. A run requested
# during a pause is not put on hold.
# Unsent executions leave the counts of a sliding window. A concurrent claim through the limiter may write the count of
# its own snapshot, which is too high but never too low. A token bucket gets nothing back: the next executions have
# their instants already, and one more beside them would exceed the rate.
_PUT = put_ends_of(
    "back",
    end_id="back.return_event",
    attempt="back.attempt - 1",
    at="now()",
    reason="back.reason",
    when="back.status = 'CANCELLED'",
)
_STATUS = """CASE WHEN e.cancel_requested_at IS NOT NULL
                        OR s.repeats AND e.attempt_count = 1
                           AND (s.is_cancelled OR COALESCE(e.scheduled_at <= s.replaced_at, false)) THEN 'CANCELLED'
                      WHEN COALESCE(e.created_at <= s.paused_at
                                    AND (s.repeats OR LEAST(e.run_at, u.claimed_at) <= s.paused_at), false)
                      THEN 'PENDING'
                      WHEN e.attempt_count = 1 THEN 'QUEUED' ELSE 'RETRYING' END"""
RELEASE = statement(
    "executions.release",
    f"""
    WITH stopped AS MATERIALIZED (
      SELECT j.job_id, j.paused_at, COALESCE(j.end_reason = 'CANCELLED', false) AS is_cancelled,
             CASE WHEN j.replaced_by_id IS NOT NULL THEN j.retired_at END AS replaced_at,
             NOT {ONE_SHOT} AS repeats
        FROM jobs AS j
       WHERE j.job_id IN (SELECT job_id FROM executions WHERE execution_id = ANY (CAST(:ids AS TEXT[])))
       ORDER BY j.job_id FOR SHARE),
    back AS (
      UPDATE executions AS e
         SET status = {_STATUS}, on_hold = {_STATUS} = 'PENDING',
             completed_at = CASE WHEN {_STATUS} = 'CANCELLED' THEN now() END,
             run_at = CASE WHEN u.defer_ms > 0
                           THEN GREATEST(e.run_at, now() + u.defer_ms * INTERVAL '1 millisecond') ELSE e.run_at END,
             attempt_count = e.attempt_count - 1, started_at = NULL
        FROM unnest(CAST(:ids AS TEXT[]), CAST(:attempts AS BIGINT[]), CAST(:claimed AS TIMESTAMPTZ[]),
                    CAST(:defer_ms AS BIGINT[]), CAST(:noted AS BOOLEAN[]), CAST(:reasons AS TEXT[]),
                    CAST(:claim_events AS TEXT[]), CAST(:return_events AS TEXT[]))
             AS u (execution_id, attempt, claimed_at, defer_ms, is_noted, reason, claim_event, return_event)
        CROSS JOIN stopped AS s
       WHERE e.execution_id = u.execution_id AND s.job_id = e.job_id
         AND COALESCE(e.attempt_count = u.attempt AND e.started_at = u.claimed_at
                      AND e.worker_id = :worker AND e.status = 'RUNNING', false)
      RETURNING e.execution_id, e.job_id, e.status, e.scheduled_at, e.queue, e.shard, e.endpoint, e.limit_key,
                e.priority, e.run_at, e.followed, u.attempt, u.claimed_at, u.is_noted, u.reason, u.claim_event,
                u.return_event),
    recorded AS (
      INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, actor, reason,
                                    occurred_at)
      SELECT back.claim_event, back.execution_id, CASE WHEN back.attempt = 1 THEN 'QUEUED' ELSE 'RETRYING' END,
             'RUNNING', back.attempt, :worker, 'CLAIMED', back.claimed_at
        FROM back WHERE back.is_noted OR back.status IN ('CANCELLED', 'PENDING')
      UNION ALL
      SELECT back.return_event, back.execution_id, 'RUNNING', back.status, back.attempt, :worker, back.reason, now()
        FROM back WHERE back.is_noted OR back.status IN ('CANCELLED', 'PENDING')
      RETURNING event_id),
    settled AS ({settlement_of("back", at="now()", when="back.status = 'CANCELLED'")}),
    put AS ({_PUT}),
    passed AS MATERIALIZED (
      SELECT gate_id FROM gates WHERE gate_id = ANY (CAST(:gates AS TEXT[])) ORDER BY gate_id FOR UPDATE),
    unsent AS (
      SELECT u.gate_id, u.slot, u.bucket, count(*) AS amount
        FROM unnest(CAST(:counted AS TEXT[]), CAST(:gates AS TEXT[]), CAST(:slots AS BIGINT[]),
                    CAST(:buckets AS BIGINT[])) AS u (execution_id, gate_id, slot, bucket)
        JOIN back ON back.execution_id = u.execution_id
        JOIN passed ON passed.gate_id = u.gate_id
       GROUP BY u.gate_id, u.slot, u.bucket),
    uncounted AS (
      UPDATE gate_windows AS w SET started = GREATEST(0, w.started - unsent.amount)
        FROM unsent WHERE w.gate_id = unsent.gate_id AND w.slot = unsent.slot AND w.bucket = unsent.bucket
      RETURNING w.gate_id)
    SELECT queue, shard, endpoint, limit_key, priority, run_at,
           run_at <= now() AND status IN ('QUEUED', 'RETRYING') AS is_due,
           CASE WHEN return_event IN (SELECT end_id FROM put) THEN return_event END AS end_id
      FROM back
    """,  # noqa: S608 - constants of this package
)


class Release(NamedTuple):
    """A claim to release; the execution is due `defer_ms` from now by the database's clock, or keeps its place for 0.

    Without `is_noted` its history does not show the claim. `windows` are the claim's.
    """

    key: ClaimKey
    defer_ms: int = 0
    is_noted: bool = True
    windows: tuple[tuple[str, int], ...] = ()
    reason: ChangeReason = ChangeReason.HANDED_BACK


class Released(NamedTuple):
    """A released execution; `end_id` is its row in the outbox if it ended, and its end has a subscriber."""

    queue: str
    partition: Partition
    run_at: datetime
    is_due: bool
    end_id: str | None = None


def release(
    database: Database, worker_id: str, releases: Collection[Release], *, unless_locked: bool = False
) -> list[Released]:
    """Release unstarted claims with no attempt spent; return the claims that were still held.

    With `unless_locked` the statement hardly waits for locked rows.
    """
    if not releases:
        return []
    ordered = sorted(releases)
    counted = list[tuple[str, str, int, int]]()  # where the windows have counted the claims
    for claim, _, _, windows, _ in ordered:
        claimed_ns = (claim.claimed_at - EPOCH) // timedelta(microseconds=1) * 1000
        for gate_id, bucket_ns in windows:
            number = claimed_ns // bucket_ns
            counted.append((claim.execution_id, gate_id, number % RING, number * bucket_ns))
    params = {
        "worker": worker_id,
        "ids": [release.key.execution_id for release in ordered],
        "attempts": [release.key.attempt for release in ordered],
        "claimed": [release.key.claimed_at for release in ordered],
        "defer_ms": [release.defer_ms for release in ordered],
        "noted": [release.is_noted for release in ordered],
        "reasons": [release.reason.value for release in ordered],
        "claim_events": [ids.event_id() for _ in ordered],
        "return_events": [ids.event_id() for _ in ordered],
        **{name: [row[at] for row in counted] for at, name in enumerate(("counted", "gates", "slots", "buckets"))},
    }
    fetch = database.fetch_unless_locked if unless_locked else database.fetch
    return [
        Released(
            row.queue,
            Partition(row.shard, row.endpoint, row.limit_key, row.priority),
            row.run_at,
            row.is_due,
            row.end_id,
        )
        for row in fetch(RELEASE, params)
    ]


def defer_ms(age: timedelta) -> float:
    """Return for how many milliseconds to defer an execution that only another worker might run: a tenth of its age.

    So it is claimed less and less often, without a counter.
    """
    return min(max(age / timedelta(milliseconds=10), MIN_DEFERRAL_MS), MAX_DEFERRAL_MS)
