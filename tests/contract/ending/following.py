"""Completion events for tests, and handlers that count them.

A counting handler writes each event into a table without a key, so that a second run of the handler is visible.
"""

from collections.abc import Callable, Collection, Sequence

from sqlalchemy import Connection, text

from app.kernel import ids
from app.kernel.db import Database
from app.queue.ending.handler import Handler, HandlerResult
from app.queue.ending.outbox_rows import End
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.verdict import Verdict
from schema.states import Followed
from tests import rows
from tests.claiming import take

ERROR = DeliveryError("HTTP_ERROR", "answered 503")
ALL = Followed.SUCCESS | Followed.FAILURE | Followed.CANCELLATION | Followed.ATTEMPT_FAILED


def counting_handler(
    database: Database, name: str = "count", failing: Callable[[], Collection[str]] = frozenset
) -> Handler:
    """Return a handler that records all completion events.

    The handler raises for events of the executions that `failing` returns at the time of the call.
    """
    database.fetch(text("CREATE TABLE IF NOT EXISTS counted (name TEXT NOT NULL, end_id TEXT NOT NULL)"))

    def apply(connection: Connection, ends: Sequence[End]) -> HandlerResult:
        for end in ends:
            connection.execute(text("INSERT INTO counted VALUES (:name, :id)"), {"name": name, "id": end.end_id})
        if failing() & {end.execution_id for end in ends}:  # type: ignore[operator]
            raise LookupError("nothing there")
        return HandlerResult({"http": len(ends)})

    return Handler(name, lambda _end: True, apply)


def counted_events(database: Database, name: str = "count") -> list[str]:
    """Return the ids of the events that a counting handler has recorded and committed."""
    found = database.fetch(text("SELECT end_id FROM counted WHERE name = :name"), {"name": name})
    return sorted(row.end_id for row in found)


def claimed(
    database: Database, worker_id: str, count: int = 1, *, followed: int | None = None, max_attempts: int = 3
) -> list[Claim]:
    """Create and claim executions; `followed` is their bit set of subscribed completion events."""
    added = rows.add_executions(database, count, max_attempts=max_attempts)
    follow = text("UPDATE executions SET followed = CAST(:followed AS BIGINT) WHERE execution_id = ANY (:ids)")
    database.fetch(follow, {"followed": followed, "ids": added})
    return take(database, worker_id, count).claims


def completions(claims: Sequence[Claim], verdict: Verdict) -> list[Completion]:
    """Return the completions of claims with a verdict."""
    return [Completion(claim, ids.attempt_id(), verdict, claim.claimed_at, 5, ()) for claim in claims]


def complete_claims(database: Database, claims: Sequence[Claim], verdict: Verdict | None = None) -> list[str]:
    """Complete claims, as failures by default; return the ids of their completion events, which may not be stored."""
    ended = completions(claims, verdict or Verdict.fail(ERROR))
    assert len(complete(database, claims[0].worker_id, ended)) == len(claims)
    return sorted(completion.attempt_id for completion in ended)


def outbox_events(database: Database) -> list[str]:
    """Return the ids of the completion events in the outbox."""
    return sorted(row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends")))


def dead_letters(database: Database) -> dict[str, str | None]:
    """Return the resolution of each dead letter, by the id of its execution."""
    found = database.fetch(text("SELECT execution_id, resolution FROM dead_letters"))
    return {row.execution_id: row.resolution for row in found}


def make_due(database: Database) -> None:
    """Make each completion event in the outbox due for the scheduler, including deferred events."""
    database.fetch(text("UPDATE execution_ends SET due_at = now() - INTERVAL '2 seconds'"))
