"""Effects that count: each writes what it was given into a table without a key, where a second one would show."""

from collections.abc import Callable, Collection, Sequence

from sqlalchemy import Connection, text

from app.kernel import ids
from app.kernel.db import Database
from app.queue.ending.handler import Brought, Handler
from app.queue.ending.outbox_rows import End
from app.queue.executions.completion import Conclusion, conclude
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.verdict import Verdict
from schema.states import Followed
from tests import rows
from tests.claiming import take

ERROR = DeliveryError("HTTP_ERROR", "answered 503")
ALL = Followed.SUCCESS | Followed.FAILURE | Followed.CANCELLATION | Followed.ATTEMPT_FAILED


def counting(database: Database, name: str = "count", odd: Callable[[], Collection[str]] = frozenset) -> Handler:
    """Make an effect of all ends that writes them down, and raises for ends of the executions that are `odd` now."""
    database.fetch(text("CREATE TABLE IF NOT EXISTS counted (name TEXT NOT NULL, end_id TEXT NOT NULL)"))

    def apply(connection: Connection, ends: Sequence[End]) -> Brought:
        for end in ends:
            connection.execute(text("INSERT INTO counted VALUES (:name, :id)"), {"name": name, "id": end.end_id})
        if odd() & {end.execution_id for end in ends}:  # type: ignore[operator]
            raise LookupError("nothing there")
        return Brought(["http"])

    return Handler(name, lambda _end: True, apply)


def counted(database: Database, name: str = "count") -> list[str]:
    """Return the ends that such an effect was given and that it was not undone for."""
    found = database.fetch(text("SELECT end_id FROM counted WHERE name = :name"), {"name": name})
    return sorted(row.end_id for row in found)


def claimed(
    database: Database, worker_id: str, count: int = 1, *, followed: int | None = None, max_attempts: int = 3
) -> list[Claim]:
    """Claim so many new executions, of which the one or the other end is followed."""
    added = rows.add_executions(database, count, max_attempts=max_attempts)
    follow = text("UPDATE executions SET followed = CAST(:followed AS BIGINT) WHERE execution_id = ANY (:ids)")
    database.fetch(follow, {"followed": followed, "ids": added})
    return take(database, worker_id, count).claims


def conclusions(claims: Sequence[Claim], verdict: Verdict) -> list[Conclusion]:
    """Let claims end in this way."""
    return [Conclusion(claim, ids.attempt_id(), verdict, claim.claimed_at, 5, ()) for claim in claims]


def end(database: Database, claims: Sequence[Claim], verdict: Verdict | None = None) -> list[str]:
    """Conclude claims, as failures unless a verdict is given; returns the ids of their ends."""
    ended = conclusions(claims, verdict or Verdict.fail(ERROR))
    assert len(conclude(database, claims[0].worker_id, ended)) == len(claims)
    return sorted(one.attempt_id for one in ended)


def ends(database: Database) -> list[str]:
    """Return what is in the outbox."""
    return sorted(row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends")))


def letters(database: Database) -> dict[str, str | None]:
    """Return the resolution of each dead letter, by its execution."""
    found = database.fetch(text("SELECT execution_id, resolution FROM dead_letters"))
    return {row.execution_id: row.resolution for row in found}


def grow_old(database: Database) -> None:
    """Let a second pass for all that is in the outbox, and each wait of what was put off."""
    database.fetch(text("UPDATE execution_ends SET due_at = now() - INTERVAL '2 seconds'"))
