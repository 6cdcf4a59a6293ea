"""Dead letters: failed executions until they are resolved."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from app.kernel.db import Database
from app.kernel.db.paging import Position
from app.kernel.db.rows import RowValue
from app.kernel.errors import ConflictError, DeadLetterNotFoundError, TaskExecutorError
from app.kernel.sql import statement
from app.queue.ending.handler import Handler, HandlerResult
from app.queue.ending.outbox_rows import End
from schema.states import ExecutionStatus, Resolution

MAX_MESSAGE = 500  # characters of an error that a letter keeps; the attempt has all of it

# The lock keeps a manual retry from running between the read of the execution and the insert. An execution that was
# retried before gets a resolved letter; an execution that ended without an attempt
# has a reason instead of an error.
LEAVE = statement(
    "dead_letters.leave",
    """
    WITH over AS MATERIALIZED (
      SELECT execution_id, job_id, endpoint, endpoint_version, status, attempt_count, completed_at FROM executions
       WHERE execution_id = ANY (CAST(:executions AS TEXT[])) ORDER BY execution_id FOR SHARE)
    INSERT INTO dead_letters (letter_id, execution_id, job_id, endpoint, endpoint_version, labels, error_type, message,
                              attempt_count, failed_at, resolution, resolved_at)
    SELECT u.letter_id, over.execution_id, over.job_id, over.endpoint, over.endpoint_version, j.labels,
           COALESCE(u.reason, a.error->>'type', 'UNKNOWN'), substr(a.error->>'message', 1, {max_message}),
           u.attempt, u.failed_at,
           CASE WHEN over.status = 'FAILED' AND over.completed_at = u.failed_at THEN NULL ELSE 'RETRIED' END,
           CASE WHEN over.status = 'FAILED' AND over.completed_at = u.failed_at THEN NULL ELSE now() END
      FROM unnest(CAST(:letters AS TEXT[]), CAST(:executions AS TEXT[]), CAST(:attempts AS BIGINT[]),
                  CAST(:reasons AS TEXT[]), CAST(:instants AS TIMESTAMPTZ[]))
           AS u (letter_id, execution_id, attempt, reason, failed_at)
      JOIN over ON over.execution_id = u.execution_id
      JOIN jobs AS j ON j.job_id = over.job_id
      LEFT JOIN attempts AS a ON a.execution_id = u.execution_id AND a.attempt_number = u.attempt
    ON CONFLICT (letter_id) DO NOTHING
    """,
    max_message=MAX_MESSAGE,
)
RESOLVE_OF_EXECUTIONS = statement(
    "dead_letters.resolve_of_executions",
    """
    UPDATE dead_letters
       SET resolution = :resolution, resolved_at = now(), resolved_by = :actor, redriven_as = execution_id
     WHERE execution_id = ANY (CAST(:executions AS TEXT[])) AND resolved_at IS NULL
    """,
)


LOCK = statement(
    "dead_letters.lock",
    """
    SELECT letter_id, execution_id, resolution, redriven_as FROM dead_letters
     WHERE letter_id = ANY (CAST(:letters AS TEXT[])) ORDER BY letter_id FOR UPDATE
    """,
)
# Open letters, and letters not resolved by another run of the same execution.
LOCK_OF_EXECUTIONS = statement(
    "dead_letters.lock_of_executions",
    """
    SELECT letter_id, execution_id, failed_at, resolution, redriven_as FROM dead_letters
     WHERE execution_id = ANY (CAST(:executions AS TEXT[]))
       AND (resolved_at IS NULL OR resolution = 'ARCHIVED' OR redriven_as <> execution_id)
     ORDER BY letter_id FOR UPDATE
    """,
)
FOUND = statement("dead_letters.found", "SELECT resolution, note FROM dead_letters WHERE letter_id = :letter_id")
ARCHIVE = statement(
    "dead_letters.archive",
    """
    UPDATE dead_letters SET resolution = 'ARCHIVED', resolved_at = now(), resolved_by = :actor, note = :note
     WHERE letter_id = ANY (CAST(:letters AS TEXT[])) AND resolved_at IS NULL
    """,
)
RESOLVE_AS = statement(
    "dead_letters.resolve_as",
    """
    UPDATE dead_letters AS d
       SET resolution = 'REDRIVEN', resolved_at = now(), resolved_by = :actor, redriven_as = u.execution_id
      FROM unnest(CAST(:letters AS TEXT[]), CAST(:executions AS TEXT[])) AS u (letter_id, execution_id)
     WHERE d.letter_id = ANY (CAST(:letters AS TEXT[])) AND d.letter_id = u.letter_id AND d.resolved_at IS NULL
    """,
)


def kept_by_a_letter(executions: str) -> str:
    """Return the SQL condition that an execution has a letter which is open, or resolved within `:retention_ms`."""
    return f"""EXISTS (SELECT 1 FROM dead_letters AS d WHERE d.execution_id = {executions}.execution_id
                      AND (d.resolved_at IS NULL
                           OR d.resolved_at >= now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'))"""  # noqa: S608 - a part of a statement, composed at import


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFault(RowValue):
    """Fault of a letter: endpoint, error and instant of a failure, by which letters are grouped."""

    letter_id: str
    endpoint: str
    endpoint_version: int
    error_type: str
    message: str | None
    failed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(LetterFault):
    """A failed execution; `redriven_as` is the execution that retries it, if it was retried or redriven."""

    execution_id: str
    job_id: str
    labels: dict[str, str] | None
    attempt_count: int
    resolution: Resolution | None
    resolved_at: datetime | None
    resolved_by: str | None
    note: str | None
    redriven_as: str | None

    @property
    def position(self) -> Position:
        return Position(self.failed_at, self.letter_id)


def _concerns(end: End) -> bool:
    return end.status is ExecutionStatus.FAILED and not end.is_rejected


def _leave(connection: Connection, ends: Sequence[End]) -> HandlerResult:
    params = {
        "letters": [end.end_id for end in ends],
        "executions": [end.execution_id for end in ends],
        "attempts": [end.attempt for end in ends],
        "reasons": [end.reason for end in ends],
        "instants": [end.ended_at for end in ends],
    }
    connection.execute(LEAVE, params)
    return HandlerResult()


DEAD_LETTERS = Handler("dead_letters", _concerns, _leave)


def resolve_of_executions(
    connection: Connection,
    executions: Sequence[str],
    actor: str | None,
    resolution: Resolution = Resolution.RETRIED,
) -> None:
    """Resolve the letters of retried executions, whose rows are locked."""
    params = {"executions": executions, "resolution": resolution.value, "actor": actor}
    connection.execute(RESOLVE_OF_EXECUTIONS, params)


def lock_open(connection: Connection, letter_id: str, *, redriven_as: str | None) -> bool:
    """Lock an open letter; return false if it was redriven as this execution before, or as any for None.

    Raises DeadLetterNotFoundError, or ConflictError for a letter that is resolved in another way.
    """
    row = connection.execute(LOCK, {"letters": [letter_id]}).first()
    if row is None:
        raise DeadLetterNotFoundError.of(letter_id)
    if row.resolution is None:
        return True
    if row.resolution == Resolution.REDRIVEN and redriven_as in {None, row.redriven_as}:
        return False
    raise _resolved(letter_id, row.resolution)


def lock_several(
    connection: Connection, letters: Collection[str]
) -> tuple[Collection[str], dict[str, TaskExecutorError]]:
    """Lock letters; return the open letters, and an error for each other letter."""
    found = {row.letter_id: row for row in connection.execute(LOCK, {"letters": sorted(letters)})}
    refused: dict[str, TaskExecutorError] = {}
    for letter_id in letters:
        row = found.get(letter_id)
        if row is None:
            refused[letter_id] = DeadLetterNotFoundError.of(letter_id)
        elif row.resolution is not None:
            refused[letter_id] = _resolved(letter_id, row.resolution)
    return {letter_id for letter_id in found if letter_id not in refused}, refused


def lock_of(connection: Connection, failed: Mapping[str, datetime]) -> dict[str, TaskExecutorError]:
    """Lock the letters of executions that failed at these instants, and whose rows are locked.

    Returns an error for each execution that must not be retried, because its letter was resolved in another way.
    """
    found = connection.execute(LOCK_OF_EXECUTIONS, {"executions": sorted(failed)}) if failed else ()
    return {
        row.execution_id: _resolved_otherwise(row)
        for row in found
        if row.resolution is not None and row.failed_at == failed[row.execution_id]
    }


def _resolved_otherwise(row: Row[Any]) -> ConflictError:
    if row.resolution == Resolution.ARCHIVED:
        return ConflictError(
            f"The dead letter {row.letter_id!r} of the execution {row.execution_id!r} was archived, so it is not "
            "retried. To run it again, create a new job with its input."
        )
    return ConflictError(
        f"The dead letter {row.letter_id!r} of the execution {row.execution_id!r} was redriven as a new job: look at "
        f"its execution {row.redriven_as!r} instead."
    )


def _resolved(letter_id: str, resolution: str) -> ConflictError:
    return ConflictError(f"The dead letter {letter_id!r} is already resolved: {resolution}.")


def resolve_as(connection: Connection, executions: Mapping[str, str], *, actor: str | None) -> None:
    """Resolve letters, which are locked and open, as redriven by `executions`, which are by letter."""
    if executions:
        params = {"letters": [*executions], "executions": [*executions.values()], "actor": actor}
        connection.execute(RESOLVE_AS, params)


def archive(database: Database, letter_id: str, *, note: str, actor: str | None) -> None:
    """Resolve a letter without a retry; does nothing to a letter that was archived with the same note.

    Raises DeadLetterNotFoundError, or ConflictError for a letter that is resolved in another way.
    """

    def body(connection: Connection) -> None:
        refused = archive_several(connection, [letter_id], note=note, actor=actor)
        row = connection.execute(FOUND, {"letter_id": letter_id}).first() if refused else None
        if refused and (row is None or (row.resolution, row.note) != (Resolution.ARCHIVED, note)):
            raise refused[letter_id]

    database.transact(body)


def archive_several(
    connection: Connection, wanted: Sequence[str], *, note: str, actor: str | None
) -> dict[str, TaskExecutorError]:
    """Archive several letters; return an error for each letter that is not open."""
    is_open, refused = lock_several(connection, wanted)
    if is_open:
        connection.execute(ARCHIVE, {"letters": sorted(is_open), "note": note, "actor": actor})
    return refused
