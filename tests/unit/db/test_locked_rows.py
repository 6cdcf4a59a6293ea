"""Every statement that changes or locks several rows says what a row locked by another transaction does to the others.

Such a statement either skips locked rows (SKIP LOCKED), or is in WAITS with the reason why its wait delays nobody else.
A wait ends after the lock timeout; the error is 503, or the next run tries again.
"""

import re

from tests.statements import STATEMENTS

REQUEST = "a client's own request for these rows: it gets 503, and other requests do not wait"
CHUNK = "a client's own request, or a batch of a bulk job: 100 ms, then it is halved, and the locked row is refused"
OF_JOB = "the executions of one job, in the request or chore that changes this job"
HALVED = "results of a worker: after the first failure they wait 100 ms, in halves"
CALLED = "runs in the transaction of the caller, which has the locks or waits 100 ms"
WAITS = {
    "callbacks.lock_named": CALLED,
    "dead_letters.archive": CHUNK,
    "dead_letters.leave": CALLED,
    "dead_letters.lock": CHUNK,
    "dead_letters.lock_of_executions": CHUNK,
    "dead_letters.resolve_as": CHUNK,
    "dead_letters.resolve_of_executions": CHUNK,
    "executions.cancel": CHUNK,
    "executions.complete": HALVED,
    "executions.complete_subscribed": HALVED,
    "executions.endpoints_to_retry": CHUNK,
    "executions.hold": OF_JOB,
    "executions.jobs_to_retry": CHUNK,
    "executions.let_go": OF_JOB,
    "executions.lock": CHUNK,
    "executions.lock_for_rescheduling": CHUNK,
    "executions.lock_for_retry": CHUNK,
    "executions.lock_of_job": OF_JOB,
    "executions.prune": "tried first, with a lock timeout of 100 ms; executions.prune_free skips locked rows",
    "executions.prune_children": "tried first, with a lock timeout of 100 ms; executions.prune_free_children skips",
    "executions.release": HALVED,
    "executions.reopen_one_shots": CHUNK,
    "executions.request_abort": CHUNK,
    "executions.request_cancel": CHUNK,
    "executions.reschedule": CHUNK,
    "executions.retry": CHUNK,
    "executions.settle_jobs": CALLED,
    "jobs.create_one_shots": "jobs of one endpoint share a group, so a locked endpoint delays its own jobs",
    "jobs.create_repeating": REQUEST,
    "notifications.note_subjects": "the subjects of one rule; the chore waits 100 ms for a rule",
    "targets.change": "one breaker and its counts",
    "commands.acknowledge": "the commands to the worker that runs it",
    "routes.move": "a change of the routes; it waits 100 ms",
    "secrets.reencrypt": "a command of the operator",
}
CHANGES = re.compile(
    r"\bDELETE FROM\b|(?<!FOR )(?<!KEY )(?<!DO )\bUPDATE \w|\bDO UPDATE\b|\bFOR (?:NO KEY |KEY )?(?:UPDATE|SHARE)\b"
)
SEVERAL = re.compile(r"= ANY \(|\bunnest\(|\bIN \(\s*SELECT\b|\bLIMIT :")


def several_rows() -> set[str]:
    return {name for name, clause in STATEMENTS if CHANGES.search(clause.text) and SEVERAL.search(clause.text)}


def test_each_statement_of_several_rows_skips_locked_rows_or_says_why_it_waits() -> None:
    waiting = {name for name, clause in STATEMENTS if name in several_rows() and "SKIP LOCKED" not in clause.text}
    waiting = {name for name in waiting if not name.endswith("_in_regions")}
    assert sorted(waiting - WAITS.keys()) == [], "skip locked rows, or add the reason to WAITS"
    assert sorted(WAITS.keys() - waiting) == [], "remove these from WAITS"
