"""Dead letters that nobody has seen to, counted by endpoint, and ends that wait for their effects."""

from dataclasses import dataclass

from app.kernel.db import Database
from app.kernel.sql import statement

MOST_LETTERS = 1_000  # that are counted of an endpoint
MOST_ENDPOINTS = 200
MOST_ENDS = 1_000
LATE_SECONDS = 60.0  # a writer or a scheduler that keeps up needs a few

# From endpoint to endpoint by the index of open letters, which has nothing else in it.
NEXT_ENDPOINT = statement(
    "stats.next_endpoint_with_letters",
    """
    SELECT endpoint FROM dead_letters WHERE resolved_at IS NULL AND endpoint > :after
     ORDER BY endpoint, failed_at, letter_id LIMIT 1
    """,
)
OPEN_LETTERS = statement(
    "stats.open_letters",
    """
    SELECT count(*) AS n FROM (
      SELECT letter_id FROM dead_letters WHERE resolved_at IS NULL AND endpoint = :endpoint
       ORDER BY endpoint, failed_at, letter_id LIMIT :most) AS found
    """,
)
LATE_ENDS = statement(
    "stats.late_ends",
    """
    SELECT count(*) AS n FROM (
      SELECT end_id FROM execution_ends WHERE ended_at < now() - CAST(:late_ms AS BIGINT) * INTERVAL '1 millisecond'
       LIMIT :most) AS late
    """,
)


@dataclass(frozen=True, slots=True)
class Unseen:
    """How many letters of an endpoint are open; up to MOST_LETTERS are counted."""

    endpoint: str
    letters: int


def unseen(database: Database) -> list[Unseen]:
    """Count the open letters of the first MOST_ENDPOINTS endpoints by name that have any."""
    found: list[Unseen] = []
    while len(found) < MOST_ENDPOINTS:
        after = found[-1].endpoint if found else ""
        row = next(iter(database.fetch(NEXT_ENDPOINT, {"after": after})), None)
        if row is None:
            break
        (counted,) = database.fetch(OPEN_LETTERS, {"endpoint": row.endpoint, "most": MOST_LETTERS})
        found.append(Unseen(row.endpoint, counted.n))
    return found


def late_ends(database: Database, *, late_seconds: float) -> int:
    """Count ends whose effects have been outstanding for so long, up to MOST_ENDS."""
    (row,) = database.fetch(LATE_ENDS, {"late_ms": int(late_seconds * 1000), "most": MOST_ENDS})
    number: int = row.n
    return number
