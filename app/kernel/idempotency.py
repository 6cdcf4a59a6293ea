"""Idempotency keys: the answer to the first request with a key, for a client that repeats the request.

A row is written in the transaction of the request's effect, so a row exists exactly if the effect does. Of two
concurrent requests with one key, the second waits for the first at the primary key.
"""

from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.db.deletion import deletion
from app.kernel.errors import UnavailableError
from app.kernel.sql import statement

KEPT_HOURS = 24

TAKE = statement(
    "idempotency.take",
    """
    INSERT INTO idempotency_keys (key_id, idempotency_key, fingerprint, request_id)
    VALUES (:key_id, :idempotency_key, :fingerprint, :request_id)
    ON CONFLICT (key_id, idempotency_key) DO NOTHING
    """,
)
READ = statement(
    "idempotency.read",
    """
    SELECT fingerprint, request_id, status, etag, body FROM idempotency_keys
     WHERE key_id = :key_id AND idempotency_key = :idempotency_key
    """,
)
ANSWER = statement(
    "idempotency.answer",
    """
    UPDATE idempotency_keys SET status = :status, etag = :etag, body = :body
     WHERE key_id = :key_id AND idempotency_key = :idempotency_key AND status IS NULL
    """,
)
PRUNE = deletion(
    "idempotency.prune",
    "idempotency_keys",
    ["key_id", "idempotency_key"],
    f"created_at < now() - INTERVAL '{KEPT_HOURS} hours'",
    time="created_at",
    shown=["key_id"],
)


class KeyedRequest(NamedTuple):
    """A request with an idempotency key; `key_id` is the id of the API key.

    `fingerprint` is equal for equal requests; `request_id` is new for each repetition.
    """

    key_id: str
    idempotency_key: str
    fingerprint: str
    request_id: str


class StoredAnswer(NamedTuple):
    status: int
    etag: str | None
    body: str


class KeyClaim(NamedTuple):
    """The stored use of a key: whether the current sending took the key, the request, and the answer.

    `request_id` is the id of the sending that took the key. Without an answer the work is not done yet, or was
    interrupted between two transactions.
    """

    is_own: bool
    request_id: str
    fingerprint: str
    answer: StoredAnswer | None


def take(database: Database, request: KeyedRequest) -> KeyClaim:
    """Take a key in the current transaction, or read its earlier use; waits for a concurrent request with the key."""
    key = _primary(request)
    database.fetch(TAKE, key | {"fingerprint": request.fingerprint, "request_id": request.request_id})
    rows = database.fetch(READ, key)
    if not rows:
        raise UnavailableError("The idempotency key has just expired. Retry later.")
    row = rows[0]
    answer = None if row.status is None else StoredAnswer(row.status, row.etag, row.body)
    return KeyClaim(row.request_id == request.request_id, row.request_id, row.fingerprint, answer)


def store(database: Database, request: KeyedRequest, answer: StoredAnswer) -> None:
    """Store the answer to the request that took a key, unless an answer is stored already."""
    database.fetch(ANSWER, _primary(request) | {"status": answer.status, "etag": answer.etag, "body": answer.body})


def _primary(request: KeyedRequest) -> dict[str, object]:
    return {"key_id": request.key_id, "idempotency_key": request.idempotency_key}
