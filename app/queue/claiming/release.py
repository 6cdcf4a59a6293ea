"""Release: give claims back of which nothing was sent."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from app.catalog.endpoints.limits import RING
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from app.queue.claiming.partition import Partition
from app.queue.ending.outbox_rows import put_ends_of
from app.queue.executions.execution_model import ClaimKey
from app.queue.executions.settlement import settlement_of

# Of what another process is to claim when this one stops: claims of others are past its instant by now, so that only a
# full scan would find it. Due now it is found like what is new.
DUE_NOW_MS = 1
SHORTEST_PUT_OFF_MS = 1000.0
LONGEST_PUT_OFF_MS = 300_000.0

# Gives the attempt number back too: nothing was sent. started_at is part of the fence, because the same worker may
# have claimed the row again, under the same number, before a repeat of this statement arrives. An execution with a
# request to cancel ends here; what is put off is due later than it was. No attempt records any of it, so both the claim
# and the release become events, unless it is said that they tell nobody anything: where a target is busy or shut, or a
# worker late, they would tell again and again that the execution waits, which its explanation says better. Its end is
# told in any case.
# A sliding window no longer counts what was not sent. A claim that goes through its gate at the same moment may write
# the count of its own snapshot, which is too high and never too low. A token bucket gets nothing back: the next ones
# have their instants, and one more beside them would be one too many at a time.
_PUT = put_ends_of(
    "back",
    end_id="back.return_event",
    attempt="back.attempt - 1",
    at="now()",
    reason="'HANDED_BACK'",
    when="back.status = 'CANCELLED'",
)
RELEASE = statement(
    "executions.release",
    f"""
    WITH back AS (
      UPDATE executions AS e
         SET status = CASE WHEN e.cancel_requested_at IS NOT NULL THEN 'CANCELLED'
                           WHEN e.attempt_count = 1 THEN 'QUEUED' ELSE 'RETRYING' END,
             completed_at = CASE WHEN e.cancel_requested_at IS NOT NULL THEN now() END,
             run_at = CASE WHEN u.put_off_ms > 0
                           THEN GREATEST(e.run_at, now() + u.put_off_ms * INTERVAL '1 millisecond') ELSE e.run_at END,
             attempt_count = e.attempt_count - 1, started_at = NULL
        FROM unnest(CAST(:ids AS TEXT[]), CAST(:attempts AS BIGINT[]), CAST(:claimed AS TIMESTAMPTZ[]),
                    CAST(:put_off_ms AS BIGINT[]), CAST(:noted AS BOOLEAN[]), CAST(:claim_events AS TEXT[]),
                    CAST(:return_events AS TEXT[]))
             AS u (execution_id, attempt, claimed_at, put_off_ms, is_noted, claim_event, return_event)
       WHERE e.execution_id = u.execution_id
         AND COALESCE(e.attempt_count = u.attempt AND e.started_at = u.claimed_at
                      AND e.worker_id = :worker AND e.status = 'RUNNING', false)
      RETURNING e.execution_id, e.job_id, e.status, e.scheduled_at, e.queue, e.shard, e.endpoint, e.limit_key,
                e.priority, e.run_at, e.followed, u.attempt, u.claimed_at, u.is_noted, u.claim_event, u.return_event),
    recorded AS (
      INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, actor, reason,
                                    occurred_at)
      SELECT back.claim_event, back.execution_id, CASE WHEN back.attempt = 1 THEN 'QUEUED' ELSE 'RETRYING' END,
             'RUNNING', back.attempt, :worker, 'CLAIMED', back.claimed_at
        FROM back WHERE back.is_noted OR back.status = 'CANCELLED'
      UNION ALL
      SELECT back.return_event, back.execution_id, 'RUNNING', back.status, back.attempt, :worker, 'HANDED_BACK', now()
        FROM back WHERE back.is_noted OR back.status = 'CANCELLED'
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
    SELECT queue, shard, endpoint, limit_key, priority, run_at, run_at <= now() AND status <> 'CANCELLED' AS is_due,
           CASE WHEN return_event IN (SELECT end_id FROM put) THEN return_event END AS end_id
      FROM back
    """,  # noqa: S608 - constants of this package
)


class Release(NamedTuple):
    """A claim to give back, and for how many milliseconds nobody may claim it again; 0 leaves its instant as it is.

    Without `is_noted` the history of the execution says nothing of it. `windows` are the claim's.
    """

    key: ClaimKey
    put_off_ms: int = 0
    is_noted: bool = True
    windows: tuple[tuple[str, int], ...] = ()


class HandedBack(NamedTuple):
    """An execution that was given back: its queue, its partition and its instant, and whether that has come.

    Where it ended instead, and somebody follows that, it left the row `end_id` in the outbox.
    """

    queue: str
    partition: Partition
    run_at: datetime
    is_due: bool
    end_id: str | None = None


def release(
    database: Database,
    worker_id: str,
    claims: Collection[ClaimKey],
    *,
    put_off_ms: Mapping[ClaimKey, int] = MappingProxyType({}),
) -> int:
    """Release unstarted claims with no attempt spent; returns how many were still held.

    A claim named in `put_off_ms` is due so many milliseconds from now, by the database's clock, or at its own instant
    if that is later.
    """
    return len(hand_back(database, worker_id, [Release(claim, put_off_ms.get(claim, 0)) for claim in claims]))


def hand_back(
    database: Database, worker_id: str, releases: Collection[Release], *, unless_locked: bool = False
) -> list[HandedBack]:
    """Release unstarted claims with no attempt spent; returns those that were still held.

    With `unless_locked` rows that others have locked are hardly waited for.
    """
    if not releases:
        return []
    ordered = sorted(releases)
    params = {
        "worker": worker_id,
        "ids": [release.key.execution_id for release in ordered],
        "attempts": [release.key.attempt for release in ordered],
        "claimed": [release.key.claimed_at for release in ordered],
        "put_off_ms": [release.put_off_ms for release in ordered],
        "noted": [release.is_noted for release in ordered],
        "claim_events": [ids.event_id() for _ in ordered],
        "return_events": [ids.event_id() for _ in ordered],
    } | _counted(ordered)
    fetch = database.fetch_unless_locked if unless_locked else database.fetch
    return [
        HandedBack(
            row.queue,
            Partition(row.shard, row.endpoint, row.limit_key, row.priority),
            row.run_at,
            row.is_due,
            row.end_id,
        )
        for row in fetch(RELEASE, params)
    ]


def _counted(releases: Sequence[Release]) -> dict[str, object]:
    """Return where the windows have counted what is given back."""
    counted = []
    for claim, _, _, windows in releases:
        claimed_ns = (claim.claimed_at - EPOCH) // timedelta(microseconds=1) * 1000
        for gate_id, bucket_ns in windows:
            number = claimed_ns // bucket_ns
            counted.append((claim.execution_id, gate_id, number % RING, number * bucket_ns))
    return {name: [one[at] for one in counted] for at, name in enumerate(("counted", "gates", "slots", "buckets"))}


def put_off_ms(age: timedelta) -> float:
    """Return for how long to put off an execution of this age that its worker cannot run, but another one might.

    In milliseconds, and a tenth of the age: what goes on waiting is claimed ever more rarely, and nobody has to count.
    """
    return min(max(age / timedelta(milliseconds=10), SHORTEST_PUT_OFF_MS), LONGEST_PUT_OFF_MS)
