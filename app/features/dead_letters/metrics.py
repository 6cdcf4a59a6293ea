"""Counts of open dead letters by endpoint, and of completion events that wait for their handlers."""

from dataclasses import dataclass

from app.kernel.db import Database
from app.kernel.sql import statement

MAX_LETTERS = 1_000  # counted of an endpoint
MAX_ENDPOINTS = 200
MAX_ENDS = 1_000
LATE_SECONDS = 60.0  # a worker or scheduler without backlog needs a few

# Steps from endpoint to endpoint by the index of open letters.
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
class UnseenLetters:
    """Number of open letters of an endpoint, up to MAX_LETTERS."""

    endpoint: str
    letters: int


def unseen(database: Database) -> list[UnseenLetters]:
    """Count open letters by endpoint, for the first MAX_ENDPOINTS endpoints by name."""
    found: list[UnseenLetters] = []
    while len(found) < MAX_ENDPOINTS:
        after = found[-1].endpoint if found else ""
        row = next(iter(database.fetch(NEXT_ENDPOINT, {"after": after})), None)
        if row is None:
            break
        (counted,) = database.fetch(OPEN_LETTERS, {"endpoint": row.endpoint, "most": MAX_LETTERS})
        found.append(UnseenLetters(row.endpoint, counted.n))
    return found


def late_ends(database: Database, *, late_seconds: float) -> int:
    """Count completion events that have waited longer than `late_seconds` for their handlers, up to MAX_ENDS."""
    (row,) = database.fetch(LATE_ENDS, {"late_ms": int(late_seconds * 1000), "most": MAX_ENDS})
    number: int = row.n
    return number
