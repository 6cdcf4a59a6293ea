"""All pairs of verbs on one job, in every interleaving of their statements: no invariant is broken.

Each run of the suite tries a third of the start states of each pair, and `make fuzz` all of them.
If only one verb of a pair has something to change, the test covers the refusal of the other verb.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import combinations_with_replacement, product

import pytest
from sqlalchemy import text

from app.kernel import ids
from app.kernel.db import Database
from app.queue.claiming.release import Release, release
from app.queue.executions import on_hold, reclaim, reclaim_candidates
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_model import Claim, ClaimKey, DeliveryError
from app.queue.executions.manual_retry import retry_execution
from app.queue.executions.verdict import Verdict
from app.queue.jobs.job_cancellation import cancel_job
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_pause import pause_job, resume_job
from app.queue.jobs.job_update import update_job
from app.queue.jobs.run_now import run_job
from app.queue.reading.attempt_rows import ALL_ATTEMPTS
from tests import rows
from tests.cases import choice_of
from tests.contract.races.interleaving import Body, SideGroup, interleavings, pair
from tests.verdicts import success

WORKER = "wrk_gone"
ERROR = DeliveryError("HTTP_ERROR", "answered 503")

# States of an execution and of its job before both verbs begin.
EXECUTIONS = {
    "queued": "status = 'QUEUED'",
    "held": "status = 'PENDING', on_hold = true",
    "running": f"status = 'RUNNING', worker_id = '{WORKER}', started_at = now(), attempt_count = 1",
    "retrying": "status = 'RETRYING', attempt_count = 1",
    "held after an attempt": "status = 'PENDING', on_hold = true, attempt_count = 1",
    "failed": "status = 'FAILED', attempt_count = 1, completed_at = now()",
}
JOBS = {
    "active": "status = 'ACTIVE'",
    "paused": "status = 'PAUSED', paused_at = now() + INTERVAL '1 millisecond', cron_next_run_at = NULL",
    "retired": "status = 'RETIRED', retired_at = now(), cron_next_run_at = NULL",
}
FIXED_DELAY = "trigger_type = 'INTERVAL', fixed_delay = true, interval_ms = 60000, cron_starts_at = now()"
STARTS = [
    ("active", "queued"),
    ("active", "running"),
    ("active", "retrying"),
    ("active", "failed"),
    ("paused", "held"),
    ("paused", "held after an attempt"),
    ("paused", "running"),
    ("paused", "retrying"),
]

# Condition on the start states under which each verb changes something.
VERBS: dict[str, Callable[[str, str], bool]] = {
    "resume": lambda job, _: job == "paused",
    "pause": lambda job, execution: job == "active",
    "cancel": lambda job, execution: execution != "failed",
    "succeed": lambda job, execution: execution == "running",
    "fail for now": lambda job, execution: execution == "running",
    "reclaim": lambda job, execution: execution == "running",
    "release": lambda job, execution: execution == "running",
    "hold retries": lambda job, execution: (job, execution) == ("paused", "retrying"),
    "update": lambda job, execution: True,
    "run now": lambda job, execution: True,
    "retry": lambda job, execution: execution == "failed",
}
PAIRS = list(combinations_with_replacement(VERBS, 2))

BREACHES = {
    "a fixed-delay job without a next run": """
        SELECT 1 FROM jobs AS j WHERE j.fixed_delay AND j.status = 'ACTIVE' AND j.cron_next_run_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.job_id = j.job_id AND e.completed_at IS NULL
                                                           AND e.scheduled_at = j.cron_last_tick_at)""",
    "on hold although its job is not paused": """
        SELECT 1 FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id WHERE e.on_hold AND j.status <> 'PAUSED'""",
    "a one-shot job that is active after its end": """
        SELECT 1 FROM jobs AS j WHERE j.trigger_type = 'IMMEDIATE' AND j.status <> 'RETIRED'
           AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.job_id = j.job_id AND e.completed_at IS NULL)""",
    "a one-shot job that is retired before its end": """
        SELECT 1 FROM jobs AS j JOIN executions AS e ON e.job_id = j.job_id
         WHERE j.trigger_type = 'IMMEDIATE' AND j.status = 'RETIRED' AND e.completed_at IS NULL""",
    "attempts with gaps": f"""
        SELECT 1 FROM executions AS e
         WHERE e.execution_id = :execution_id AND e.status <> 'RUNNING' AND e.attempt_count - :unrecorded <>
               (SELECT count(*) FROM {ALL_ATTEMPTS} AS a WHERE a.execution_id = e.execution_id)""",
    "two active versions": """
        SELECT 1 FROM jobs WHERE status <> 'RETIRED' HAVING count(*) > 1""",
    "claimable after its job was cancelled or replaced": """
        SELECT 1 FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id
         WHERE j.status = 'RETIRED' AND e.completed_at IS NULL AND e.status NOT IN ('RUNNING', 'RETRYING')
           AND e.attempt_count = 0 AND NOT :is_retried""",
    "cancelled with its job although it had started": """
        SELECT 1 FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id
         WHERE j.trigger_type = 'INTERVAL' AND e.status = 'CANCELLED' AND e.attempt_count > 0""",
    "claimable although its job is paused": """
        SELECT 1 FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id
         WHERE j.status = 'PAUSED' AND e.status = 'QUEUED' AND e.created_at <= j.paused_at AND NOT :is_run""",
}
ANY_BREACH = text(
    " UNION ALL ".join(f"(SELECT '{name}' AS breach WHERE EXISTS ({sql}))" for name, sql in BREACHES.items())
)
CLEAR = text(
    "DELETE FROM attempts; DELETE FROM execution_logs; DELETE FROM execution_events; DELETE FROM executions; "
    "DELETE FROM jobs"
)


class Arena:
    """A pair of sides, each with its own cache of endpoints, and the job that both sides change."""

    def __init__(self, database: Database, sides: SideGroup) -> None:
        self.database = database
        self._sides = sides
        self._creators = {side.database: Creator(side.database, shards=1, look_ahead_ms=0) for side in sides.sides}
        for creator in self._creators.values():
            creator.targets.checked("target", {})
        self.execution_id = self.job_id = ""
        self._facts: dict[str, object] = {}
        self._claimed_at = self._started_at = rows.database_now(database) - timedelta(seconds=1)

    def _put(self, job: str, execution: str, *, repeats: bool) -> None:
        """Delete all jobs and add one job with one execution in these states."""
        self.database.fetch(CLEAR)
        (self.execution_id,) = rows.add_executions(self.database, max_attempts=3)
        self.job_id = rows.job_of(self.database, self.execution_id).job_id
        self.database.fetch(text(f"UPDATE executions SET {EXECUTIONS[execution]}"))
        self._claimed_at = rows.execution(self.database, self.execution_id).started_at or self._started_at
        is_over = execution == "failed"
        columns = JOBS["retired" if is_over and not repeats else job]
        if repeats:
            columns += f", {FIXED_DELAY}, cron_last_tick_at = (SELECT scheduled_at FROM executions)"
            if is_over:
                columns += ", cron_next_run_at = now() + INTERVAL '1 minute'"
        self.database.fetch(text(f"UPDATE jobs SET {columns}"))

    def run(self, verbs: tuple[str, str], start: tuple[str, str], repeats: bool, choices: Sequence[int]) -> list[int]:
        """Run both verbs concurrently, in one order of their steps."""
        self._put(*start, repeats=repeats)
        self._facts = {
            "execution_id": self.execution_id,
            "unrecorded": int(start[1] in {"retrying", "held after an attempt", "failed"}),
            "is_retried": "retry" in verbs,
            "is_run": "run now" in verbs,
        }
        return self._sides.run([self._body(verb) for verb in verbs], choices)

    def breaches(self) -> list[str]:
        """Return the names of the broken invariants."""
        return [row.breach for row in self.database.fetch(ANY_BREACH, self._facts)]

    def _body(self, verb: str) -> Body:
        job_id, execution_id = self.job_id, self.execution_id
        return {
            "resume": lambda side: resume_job(side, job_id, 0),
            "pause": lambda side: pause_job(side, job_id),
            "cancel": lambda side: cancel_job(side, job_id),
            "succeed": lambda side: self._complete(side, success({})),
            "fail for now": lambda side: self._complete(side, Verdict.retry(ERROR, 0)),
            "reclaim": lambda side: reclaim.reclaim(side, reclaim_candidates.candidates(side, limit=9)),
            "release": lambda side: release(side, WORKER, [Release(ClaimKey(execution_id, 1, self._claimed_at))]),
            "hold retries": on_hold.hold_retries,
            "update": lambda side: update_job(self._creators[side], job_id, {}),
            "run now": lambda side: run_job(side, job_id, 1),
            "retry": lambda side: retry_execution(side, execution_id, actor=None),
        }[verb]

    def _complete(self, database: Database, verdict: Verdict) -> None:
        now = self._started_at
        claim = Claim(
            key=ClaimKey(self.execution_id, 1, now),
            execution_id=self.execution_id,
            job_id=self.job_id,
            endpoint="target",
            endpoint_version=1,
            endpoint_type="HTTP",
            worker_id=WORKER,
            attempt=1,
            max_attempts=3,
            config_revision=0,
            scheduled_at=now,
            claimed_at=now,
            due_in_seconds=0,
            late_seconds=0,
            claimed_here=0,
        )
        complete(database, WORKER, [Completion(claim, ids.attempt_id(), verdict, now, 5, ())])


def starts_of(first: str, second: str) -> list[tuple[str, str]]:
    """Return the start states at which both verbs change something, or else the states at which one verb does."""
    both = [start for start in STARTS if VERBS[first](*start) and VERBS[second](*start)]
    return both or [start for start in STARTS if VERBS[first](*start) or VERBS[second](*start)]


@pytest.mark.sampled
@pytest.mark.parametrize("level", ["read committed", "serializable"])
def test_no_interleaving_breaks_an_invariant(database: Database, database_url: str, level: str) -> None:
    if database.is_cockroach:
        pytest.skip("reads pg_blocking_pids to find which transaction waits for a lock")
    with pair(database_url, level) as sides:
        arena = Arena(database, sides)
        for first, second in PAIRS:
            for start, repeats in choice_of([*product(starts_of(first, second), (True, False))], 12):
                for _ in interleavings(partial(arena.run, (first, second), start, repeats)):
                    assert arena.breaches() == [], f"{first} and {second} of {start}, {repeats=}: {sides.taken}"
