"""Trial of a redrive: its first letters are redriven, and the rest follows only if enough of them succeed.

A redrive of thousands of letters into a fault that is still there would only fail again, and bury the receiver.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.formats import compact_json, numbered
from app.kernel.sql import statement
from schema.states import FINAL, ExecutionStatus

MAX_TRIAL = 100

MADE = statement(
    "redrives.made",
    """
    SELECT redriven_as FROM dead_letters
     WHERE letter_id = ANY (CAST(:letters AS TEXT[])) AND redriven_as IS NOT NULL ORDER BY letter_id
    """,
)
NOTE_TRIED = statement(
    "redrives.note_tried",
    """
    UPDATE redrives SET trial_executions = COALESCE(trial_executions, CAST('[]' AS JSONB)) || CAST(:executions AS JSONB)
     WHERE redrive_id = :redrive_id AND trial_passed_at IS NULL
    """,
)
UNDER_WAY = statement(
    "redrives.trial_under_way",
    "SELECT trial, least, trial_executions, trial_passed_at FROM redrives WHERE redrive_id = :redrive_id",
)
ENDED = statement(
    "redrives.trial_ended",
    """
    SELECT e.status, count(*) AS executions, min(a.error->>'type') AS error
      FROM executions AS e
      LEFT JOIN attempts AS a ON a.execution_id = e.execution_id AND a.attempt_number = e.attempt_count
     WHERE e.execution_id = ANY (CAST(:executions AS TEXT[])) GROUP BY e.status
    """,
)
# Only the first of two schedulers judges.
PASS = statement(
    "redrives.pass_trial",
    """
    UPDATE redrives SET trial_result = :result, trial_passed_at = now()
     WHERE redrive_id = :redrive_id AND status = 'RUNNING' AND trial_passed_at IS NULL
    """,
)
STOP = statement(
    "redrives.stop_trial",
    """
    UPDATE redrives SET trial_result = :result, status = 'STOPPED', ended_at = now(),
           held_until = now() - INTERVAL '1 millisecond'
     WHERE redrive_id = :redrive_id AND status = 'RUNNING' AND trial_passed_at IS NULL
    """,
)


class TrialOutcome(NamedTuple):
    """Ends of the executions of a trial; `error` is the type of one of their errors, if any."""

    tried: int
    succeeded: int
    failed: int
    error: str | None = None

    def verdict(self, trial: int, least: int) -> bool | None:
        """Return whether the rest may follow; None while it is open."""
        if self.succeeded >= least:
            return True
        return False if trial - self.failed < least else None

    def result(self, least: int) -> str:
        """Return the result in words."""
        why = f": {self.error}" if self.error else ""
        failed = f"{self.failed} failed{why}" if self.failed else "none failed"
        return f"{self.succeeded} of {numbered(self.tried, 'trial')} succeeded, {failed}; {least} were needed"


def note_tried(connection: Connection, redrive_id: str, letters: Sequence[str]) -> None:
    """Note the executions of redriven letters, in the transaction that redrives them."""
    made = [row.redriven_as for row in connection.execute(MADE, {"letters": list(letters)})]
    connection.execute(NOTE_TRIED, {"redrive_id": redrive_id, "executions": compact_json(made)})


def allowance(database: Database, redrive_id: str) -> int | None:
    """Return how many letters the trial may still redrive, 0 while it waits for its executions; None after the trial.

    Stops the redrive once the trial cannot succeed.
    """
    (row,) = database.fetch(UNDER_WAY, {"redrive_id": redrive_id})
    if row.trial is None or row.trial_passed_at is not None:
        return None
    tried = [str(each) for each in row.trial_executions or ()]
    found = _outcome(database, tried)
    passed = found.verdict(row.trial, row.least)
    if passed is None:
        left: int = max(0, row.trial - len(tried))
        return left
    params = {"redrive_id": redrive_id, "result": found.result(row.least)}
    database.transact(lambda connection: connection.execute(PASS if passed else STOP, params).close())
    return None if passed else 0


def _outcome(database: Database, tried: Sequence[str]) -> TrialOutcome:
    rows = database.fetch(ENDED, {"executions": list(tried)}) if tried else ()
    ended = {ExecutionStatus(row.status): row for row in rows if ExecutionStatus(row.status) in FINAL}
    succeeded = ended.pop(ExecutionStatus.SUCCESS, None)
    error = next((row.error for row in ended.values() if row.error), None)
    # A pruned execution had ended, and nobody knows how.
    known = sum(row.executions for row in rows)
    failed = sum(row.executions for row in ended.values()) + len(tried) - known
    return TrialOutcome(len(tried), succeeded.executions if succeeded else 0, failed, error)
