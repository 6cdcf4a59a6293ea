"""Completion of attempts: one fenced statement writes the result to execution, attempt, log and job.

A success without an error is its execution's row: only other attempts get a row in `attempts`, and log lines.
"""

import json
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.formats import array_literal
from app.kernel.function_types import Written
from app.kernel.sql import hot_statement, statement
from app.queue.ending.outbox_rows import put_ends_of
from app.queue.ending.subscriptions import may_be_followed
from app.queue.executions.execution_model import Claim, ClaimKey, FollowingJob, LogLine
from app.queue.executions.settlement import settlement_of
from app.queue.executions.verdict import Verdict
from schema.states import ExecutionStatus

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext


_TEXT = """
    WITH v AS (
      SELECT u.*, GREATEST(u.started_at, now() - u.ended_ago_ms * INTERVAL '1 millisecond') AS completed_at
        FROM unnest(
        CAST(:ids AS TEXT[]), CAST(:attempts AS BIGINT[]), CAST(:statuses AS TEXT[]), CAST(:delays AS BIGINT[]),
        CAST(:outputs AS TEXT[]), CAST(:errors AS TEXT[]), CAST(:started AS TIMESTAMPTZ[]),
        CAST(:ended_ago_ms AS BIGINT[]), CAST(:durations AS BIGINT[]), CAST(:attempt_ids AS TEXT[]),
        CAST(:max_ages AS BIGINT[]), CAST(:dues AS TIMESTAMPTZ[]))
      AS u (execution_id, attempt, status, delay_ms, output, error, started_at, ended_ago_ms, duration_ms, attempt_id,
            max_age_ms, due_at)),
    fin AS (
      UPDATE executions AS e
         SET status = CASE WHEN v.status = 'RETRYING' AND e.cancel_requested_at IS NOT NULL
                           THEN 'CANCELLED' ELSE v.status END,
             output = CAST(v.output AS JSONB), started_at = v.started_at, duration_ms = v.duration_ms,
             completed_at = CASE WHEN v.status = 'RETRYING' AND e.cancel_requested_at IS NULL
                                 THEN NULL ELSE v.completed_at END,
             run_at = CASE WHEN v.status = 'RETRYING' AND e.cancel_requested_at IS NULL
                           THEN now() + v.delay_ms * INTERVAL '1 millisecond' ELSE e.run_at END,
             max_attempts = CASE WHEN v.status = 'RETRYING'
                                 THEN GREATEST(e.max_attempts, v.attempt + 1) ELSE e.max_attempts END,
             expires_at = CASE WHEN v.status = 'RETRYING'
                               THEN e.scheduled_at + v.max_age_ms * INTERVAL '1 millisecond' ELSE e.expires_at END,
             recorded_at = CASE WHEN v.status = 'SUCCESS' AND v.error IS NULL THEN now() END
        FROM v
       WHERE e.execution_id = v.execution_id
         AND COALESCE(e.attempt_count = v.attempt AND e.worker_id = :worker AND e.status = 'RUNNING', false)
      RETURNING e.execution_id, e.job_id, e.status, e.scheduled_at, e.recorded_at{of_end}, v.attempt, v.attempt_id,
                v.started_at, v.completed_at, v.duration_ms, v.output, v.error, v.due_at),
    tried AS (
      INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, worker_id, started_at, completed_at,
                            duration_ms, output, error, led_to, due_at)
      SELECT fin.attempt_id, fin.execution_id, fin.attempt,
             CASE WHEN fin.status = 'SUCCESS' THEN 'SUCCESS' ELSE 'FAILED' END, :worker,
             fin.started_at, fin.completed_at, fin.duration_ms, CAST(fin.output AS JSONB), CAST(fin.error AS JSONB),
             NULLIF(fin.status, 'SUCCESS'), fin.due_at
        FROM fin WHERE fin.recorded_at IS NULL
      RETURNING attempt_id),
    logged AS (
      INSERT INTO execution_logs (log_id, execution_id, attempt_number, level, message, logged_at)
      SELECT l.log_id, fin.execution_id, fin.attempt, l.level,
             CASE WHEN fin.status = 'CANCELLED' AND l.level = 'WARN'
                  THEN l.message || CAST(:cancelled AS TEXT) ELSE l.message END, fin.completed_at
        FROM unnest(CAST(:log_ids AS TEXT[]), CAST(:log_executions AS TEXT[]), CAST(:log_levels AS TEXT[]),
                    CAST(:log_messages AS TEXT[])) AS l (log_id, execution_id, level, message)
        JOIN fin ON fin.execution_id = l.execution_id
      RETURNING log_id),
    settled AS ({settled}){put}
    SELECT execution_id FROM fin
    """


_SETTLED = settlement_of("fin", at="fin.completed_at", when="fin.status <> 'RETRYING'")

# Only rows that still match (execution, worker, attempt, RUNNING) are updated, and all other writes of the statement
# depend on these rows: a completion that has lost its claim writes nothing. A request to cancel replaces a retry by the
# end. A retry without an attempt left, which an actor asked for, raises max_attempts: no claim takes it otherwise. The
# end of an attempt is computed backwards from the database's current clock, so it is late rather than early, and a
# fixed delay never starts too early. For COALESCE see `app.queue.claiming.arms`.
COMPLETE = hot_statement("executions.complete", _TEXT.format(of_end="", settled=_SETTLED, put=""))

# For batches with a completion event that may have a subscriber. `put` reads the final state of each row.
_PUT = put_ends_of(
    "fin",
    end_id="fin.attempt_id",
    attempt="fin.attempt",
    at="fin.completed_at",
    rejected="COALESCE(CAST(fin.error AS JSONB)->>'rejected' = 'true', false)",
)
COMPLETE_SUBSCRIBED = hot_statement(
    "executions.complete_subscribed",
    _TEXT.format(of_end=", e.shard, e.endpoint, e.followed", settled=_SETTLED, put=f",\n    put AS ({_PUT})"),
)

# A success without a row in `attempts` is known by its claim: only the completion sets `recorded_at`, and it is final.
WRITTEN = statement(
    "executions.written",
    """
    SELECT execution_id FROM attempts WHERE attempt_id = ANY (CAST(:attempt_ids AS TEXT[]))
    UNION ALL
    SELECT e.execution_id FROM executions AS e
      JOIN unnest(CAST(:successes AS TEXT[]), CAST(:attempts AS BIGINT[]), CAST(:workers AS TEXT[]))
           AS u (execution_id, attempt, worker_id) ON u.execution_id = e.execution_id
     WHERE COALESCE(e.attempt_count = u.attempt AND e.worker_id = u.worker_id AND e.recorded_at IS NOT NULL, false)
    """,
)

# Needs no lock: a claim that has ended never comes back.
HELD = statement(
    "executions.held",
    """
    SELECT e.execution_id FROM executions AS e
      JOIN unnest(CAST(:ids AS TEXT[]), CAST(:attempts AS BIGINT[])) AS u (execution_id, attempt)
        ON e.execution_id = u.execution_id AND e.attempt_count = u.attempt
     WHERE COALESCE(e.worker_id = :worker AND e.status = 'RUNNING', false)
    """,
)

_to_json = json.JSONEncoder().encode  # json.dumps makes a call more for each value
ROW_BYTES = 1000  # columns of a completion with a nearly constant size


@dataclass(frozen=True, slots=True)
class Completion:
    """An ended attempt: `started_at` by the database's clock or slightly late, `ended_at` on time.monotonic()."""

    claim: Claim
    attempt_id: str
    verdict: Verdict
    started_at: datetime
    duration_ms: int
    logs: tuple[LogLine, ...]
    ended_at: float = field(default_factory=time.monotonic)
    span: "SpanContext | None" = None  # of the attempt, if spans are recorded
    then: tuple[FollowingJob, ...] = ()
    """Jobs that are created in the transaction of this completion (app.queue.jobs.following_jobs)."""
    on_written: Written | None = None
    """Called after the commit, with false if the claim was lost."""

    @property
    def key(self) -> ClaimKey:
        return self.claim.key

    @property
    def size(self) -> int:
        """Approximate bytes of the completion in the text of the statement, with its escaped values."""
        size = ROW_BYTES
        for value in (self.verdict.output, self.verdict.error):
            if value:
                size += _escaped_bytes(_to_json(value))
        for line in self.logs:
            size += _escaped_bytes(line.message)
        return size

    def without_payload(self, reason: str) -> "Completion":
        """Return the outcome without the output, error and log that the database refused to store."""
        verdict = self.verdict._replace(output=None, error=None)
        if self.then and verdict.status is ExecutionStatus.SUCCESS:  # which would hide the loss of its jobs
            verdict = verdict._replace(status=ExecutionStatus.FAILED)
        if verdict.status is not ExecutionStatus.SUCCESS:
            rejected = {"rejected": True} if self.verdict.is_rejected else {}
            error = {"type": "UNSTORABLE", "message": reason, **rejected}
            verdict = verdict._replace(error=error)
        return replace(self, verdict=verdict, logs=(), then=())


def _escaped_bytes(text: str) -> int:
    length = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    return length + text.count("\\") + text.count("'")


def complete(
    database: Database, worker_id: str, completions: Sequence[Completion], *, unless_locked: bool = False
) -> set[str]:
    """Write completions; returns the ids of the executions that changed.

    A missing execution had lost its claim to a reclaim or another worker. `unless_locked` fails fast on a locked row.
    """
    if not completions:
        return set()
    # In key order, so that two batches do not deadlock.
    ordered = sorted(completions, key=attrgetter("claim.execution_id"))
    fetch = database.fetch_unless_locked if unless_locked else database.fetch
    write = COMPLETE_SUBSCRIBED if subscribed(ordered) else COMPLETE
    effective = {row.execution_id for row in fetch(write, _params(worker_id, ordered))}
    missing = [c for c in ordered if c.claim.execution_id not in effective]
    if missing:
        # The statement may have run twice because its first answer was lost; then its result is stored.
        effective |= written(database, missing)
    return effective


def complete_in(connection: Connection, holder: str, completion: Completion) -> bool:
    """Write one completion in a transaction of the caller; returns False if the holder has lost the attempt."""
    write = COMPLETE_SUBSCRIBED if subscribed([completion]) else COMPLETE
    return connection.execute(write, _params(holder, [completion])).first() is not None


def subscribed(completions: Sequence[Completion]) -> list[Completion]:
    """Return the completions that may have written a completion event, whose id is the attempt's; usually few."""
    return [
        c
        for c in completions
        if (c.claim.followed or c.verdict.status is ExecutionStatus.FAILED)
        and may_be_followed(c.verdict.status, c.claim.followed, is_rejected=c.verdict.is_rejected)
    ]


def still_held(database: Database, worker_id: str, claims: Collection[ClaimKey]) -> set[str]:
    """Return the ids of executions with claims that the worker still holds; waits for no lock."""
    params = {
        "worker": worker_id,
        "ids": [claim.execution_id for claim in claims],
        "attempts": [claim.attempt for claim in claims],
    }
    return {row.execution_id for row in database.fetch(HELD, params)}


def written(database: Database, completions: Sequence[Completion]) -> set[str]:
    """Return the ids of executions with a completion that an earlier try has written."""
    successes = [c.claim for c in completions if c.verdict.is_plain_success]
    params = {
        "attempt_ids": [c.attempt_id for c in completions],
        "successes": [claim.execution_id for claim in successes],
        "attempts": [claim.attempt for claim in successes],
        "workers": [claim.worker_id for claim in successes],
    }
    return {row.execution_id for row in database.fetch(WRITTEN, params)}


def _params(worker_id: str, completions: Sequence[Completion]) -> dict[str, object]:
    now = time.monotonic()
    max_ages = [c.verdict.max_age_ms for c in completions]
    # A success without an error has no row in `attempts`, and keeps its `run_at`.
    dues = [None if c.verdict.error is None else c.claim.due_at for c in completions]
    logs = [(c.claim.execution_id, line) for c in completions for line in c.logs]
    # Long or nullable columns stay lists: `size` estimates how the driver escapes them. Generators would make a call
    # for each value, and `status.value` two.
    return {
        "worker": worker_id,
        "ids": array_literal([c.claim.execution_id for c in completions]),
        "attempts": array_literal([c.claim.attempt for c in completions]),
        "statuses": array_literal([str(c.verdict.status) for c in completions]),
        "delays": array_literal([c.verdict.delay_ms or 0 for c in completions]),
        "outputs": [None if c.verdict.output is None else _to_json(c.verdict.output) for c in completions],
        "errors": [None if c.verdict.error is None else _to_json(c.verdict.error) for c in completions],
        "started": array_literal([c.started_at for c in completions]),
        "ended_ago_ms": array_literal([int((now - c.ended_at) * 1000) for c in completions]),
        "durations": array_literal([c.duration_ms for c in completions]),
        "attempt_ids": array_literal([c.attempt_id for c in completions]),
        # An array that ends early has NULLs from there on.
        "max_ages": max_ages if any(max_ages) else "{}",
        "dues": dues if any(dues) else "{}",
        "log_ids": array_literal(ids.log_id() for _ in logs),
        "log_executions": array_literal(execution_id for execution_id, _ in logs),
        "log_levels": array_literal(line.level.value for _, line in logs),
        "log_messages": [line.message for _, line in logs],
        "cancelled": "; it was asked to be cancelled, so it is not tried again",
    }
