"""Clock mover: moves the clock from one due instant to the next, and waits at each until all due work has ended."""

import time
from collections.abc import Sequence
from datetime import datetime

from app.dev.testing.holds import ClaimHold, Holds
from app.dev.testing.moved_clock import MovedClock
from app.kernel.formats import EPOCH
from app.kernel.function_types import Call, Hint
from app.scheduler.chore import Chore
from app.scheduler.outbox_chore import Outbox

_POLL_SECONDS = 0.002
_CLAIM_SECONDS = 0.02  # for a worker to claim due executions, before the reason of their wait is read
_BREAKER_SECONDS = 0.25  # for a worker to open a breaker whose receiver has answered with Retry-After
_RELEASE_SECONDS = 5  # maximum delay of a released execution
_LOCK_SECONDS = 1.0  # for another scheduler to end a chore and unlock its rows

_WAITS = "status IN ('PENDING', 'QUEUED', 'RETRYING') AND NOT on_hold"
_RUNNING = "SELECT count(*) FROM executions WHERE status = 'RUNNING'"
# A worker that could not send yet, such as for want of a connection, released an execution for a moment of real time.
_RELEASED = f"""{_WAITS} AND attempt_count = 0 AND scheduled_at <= now()
 AND run_at > now() AND run_at < now() + INTERVAL '{_RELEASE_SECONDS} seconds'"""
_DUE = f"SELECT count(*) FROM executions WHERE ({_WAITS} AND run_at <= now()) OR ({_RELEASED})"
# The rows that are work for a chore now, by its name. Schedulers run their chores by the machine's time.
CHORES = {
    "materialize": "SELECT count(*) FROM jobs WHERE cron_next_run_at <= now()",
    "promote": "SELECT count(*) FROM executions WHERE status = 'PENDING' AND NOT on_hold AND run_at <= now()",
    "expire": "SELECT count(*) FROM executions WHERE status IN ('QUEUED', 'RETRYING') AND expires_at <= now()",
    "notify": """SELECT (SELECT count(*) FROM notification_parts) + count(*) FROM notification_groups
                  WHERE closed_at IS NULL AND waits_until <= now()""",
}
_ENDS = "SELECT ARRAY(SELECT end_id FROM execution_ends WHERE due_at <= now())"
WORK = f"SELECT now(), {', '.join(f'({query})' for query in (_RUNNING, _DUE, _ENDS, *CHORES.values()))}"
# The first of each partition, in the order of its claims.
FIRST_DUE = f"""
SELECT DISTINCT ON (queue, shard, endpoint, limit_key) execution_id, queue, clock_timestamp() FROM executions
 WHERE {_WAITS} AND run_at <= now()
 ORDER BY queue, shard, endpoint, limit_key, priority DESC, run_at, execution_id
"""
# The next instant after the last look at the work: work that became due in real time since then must not be passed.
_NEXT = f"""
WITH looked AS (SELECT CAST(%s AS TIMESTAMPTZ) AS at)
SELECT min(instant) FROM (
  SELECT min(cron_next_run_at) AS instant FROM jobs, looked WHERE cron_next_run_at > at
  UNION ALL SELECT min(run_at) FROM executions, looked WHERE {_WAITS} AND run_at > at
  UNION ALL SELECT min(expires_at) FROM executions, looked WHERE status IN ('QUEUED', 'RETRYING') AND expires_at > at
  UNION ALL SELECT min(due_at) FROM execution_ends, looked WHERE due_at > at
  UNION ALL SELECT min(waits_until) FROM notification_groups, looked WHERE closed_at IS NULL AND waits_until > at) AS n
"""
_UNFINISHED = """
SELECT execution_id, endpoint, status FROM executions
 WHERE completed_at IS NULL AND NOT on_hold AND run_at <= now() ORDER BY run_at, execution_id LIMIT 5
"""
# A worker knows the instant of a Retry-After by the machine's time until the breaker is open.
_MAY_OPEN = """
SELECT EXISTS (SELECT 1 FROM attempts WHERE completed_at > %s AND error ->> 'status_code' IN ('429', '503'))
   AND NOT EXISTS (SELECT 1 FROM breakers WHERE changed_at > %s AND state = 'open')
"""
_HAS_RULES = "SELECT EXISTS (SELECT 1 FROM notification_rules)"


class UnfinishedError(RuntimeError):
    """Work that is due at an instant has not ended in time; the message names the instant and the executions."""


class ClockMover:
    """Moves the clock of a stack. The chores are the product's: this process is one more scheduler of the stack."""

    def __init__(
        self, clock: MovedClock, chores: Sequence[Chore], outbox: Outbox, holds: Holds, *, hint: Hint, check: Call
    ) -> None:
        """`hint` wakes the workers of a queue; `check` raises if a process of the stack has ended."""
        by_name = {chore.name: chore for chore in chores}
        self._clock = clock
        self._outbox = outbox  # its chore leaves each event to its writer for a second
        self._chores = [by_name[name] for name in CHORES]
        self._watch = by_name["watch"]
        self._holds = holds
        self._hint = hint
        self._check = check
        self._moved_at = EPOCH

    def to(self, target: datetime, *, seconds: float) -> int:
        """Move to an instant and return the number of stops; `seconds` of real time are the limit.

        Raises UnfinishedError; the clock then stays at the instant that was reached.
        """
        until, stops = time.monotonic() + seconds, 0
        while True:
            looked_at, holds = self._settle(until)
            if self._clock.now() >= target:
                return stops
            instants = [hold.until for hold in holds if hold.until is not None]
            instants += [instant for (instant,) in self._clock.rows(_NEXT, [looked_at]) if instant is not None]
            self._await_breakers()
            self._clock.move(min([*instants, target]))
            self._moved_at = self._clock.now()
            stops += 1

    def _settle(self, until: float) -> tuple[datetime, list[ClaimHold]]:
        """Wait until all due work has ended or is held; return when that was seen, and the holds.

        Raises UnfinishedError.
        """
        if self._clock.rows(_HAS_RULES)[0][0]:
            self._watch.run()
        idle_since = time.monotonic()
        while True:
            looked_at, running, due, ends, *work = self._clock.rows(WORK)[0]
            if not running and not due and not ends and not any(work):
                return looked_at, []
            changes = sum(chore.run().total() for chore, rows in zip(self._chores, work, strict=True) if rows)
            if ends:
                self._outbox.handle_named(ends)
            if running or ends or changes:
                idle_since = time.monotonic()
            patience = _LOCK_SECONDS if any(work) else _CLAIM_SECONDS
            is_idle = due and time.monotonic() > idle_since + patience
            if is_idle and (holds := self._held()) is not None:
                return looked_at, holds
            if time.monotonic() > until:
                raise UnfinishedError(self._complaint())
            self._check()
            time.sleep(_POLL_SECONDS)

    def _await_breakers(self) -> None:
        """Wait until a Retry-After since the last move has opened its breaker, or for the whole time."""
        end = time.monotonic() + _BREAKER_SECONDS
        since = self._moved_at if self._moved_at <= self._clock.now() else EPOCH  # the clock may have gone back
        while time.monotonic() < end and self._clock.rows(_MAY_OPEN, [since, since])[0][0]:
            time.sleep(_POLL_SECONDS)

    def _held(self) -> list[ClaimHold] | None:
        """Return the holds if each due execution is held; else wake the workers and return None."""
        if self._clock.rows(f"SELECT 1 FROM executions WHERE {_RELEASED} LIMIT 1"):
            return None
        holds = list[ClaimHold]()
        for execution_id, queue, now in self._clock.rows(FIRST_DUE):
            if (hold := self._holds.of(execution_id, now)) is None:
                self._hint(queue)
                return None
            holds.append(hold)
        # A worker may have claimed one of them since the last look at the work.
        return None if not holds or self._clock.rows(_RUNNING)[0][0] else holds

    def _complaint(self) -> str:
        rows = self._clock.rows(_UNFINISHED)
        named = [f"{execution} of {endpoint} is {status}" for execution, endpoint, status in rows]
        unfinished = ", ".join(named) or "ticks, completion events or messages"
        return f"the clock stands at {self._clock.now().isoformat()}, where work has not ended: {unfinished}"
