"""API keys: made, found and revoked.

Only the SHA-256 of a key is stored; its secret is 192 random bits, so neither salt nor stretching is needed.
"""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from app.db import Database
from app.errors import UnauthorizedError
from app.sql import statement

CACHE_SECONDS = 5.0
CACHE_SIZE = 10_000
USED_EVERY_SECONDS = 60

# One round trip does both: the key is read when the cache lets go of it, and marked as used at most once a minute.
# The hash is compared here only to decide about the mark; who gets in is decided by `KeyRing`, in constant time.
FIND = statement(
    "api_keys.find",
    f"""
    WITH used AS (
      UPDATE api_keys SET last_used_at = now()
       WHERE key_id = :key_id AND key_hash = :key_hash AND revoked_at IS NULL
         AND (expires_at IS NULL OR expires_at > now())
         AND (last_used_at IS NULL OR last_used_at < now() - {USED_EVERY_SECONDS} * INTERVAL '1 second')
      RETURNING key_id)
    SELECT key_hash, name, scopes, revoked_at IS NOT NULL AS revoked,
           CAST(EXTRACT(EPOCH FROM expires_at - now()) AS DOUBLE PRECISION) AS seconds_left
      FROM api_keys WHERE key_id = :key_id
    """,  # noqa: S608 - a constant of this module
)
CREATE = statement(
    "api_keys.create",
    """
    INSERT INTO api_keys (key_id, name, key_hash, scopes, expires_at)
    VALUES (:key_id, :name, :key_hash, CAST(:scopes AS JSONB), CAST(:expires_at AS TIMESTAMPTZ))
    ON CONFLICT (key_id) DO NOTHING
    """,
)
LIST = statement(
    "api_keys.list",
    """
    SELECT key_id, name, scopes, created_at, expires_at, last_used_at, revoked_at,
           expires_at IS NOT NULL AND expires_at <= now() AS expired
      FROM api_keys ORDER BY created_at, key_id
    """,
)
REVOKE = statement(
    "api_keys.revoke",
    "UPDATE api_keys SET revoked_at = COALESCE(revoked_at, now()) WHERE key_id = :key_id RETURNING name",
)


class Scope(StrEnum):
    """What a key may do; ADMIN includes the others."""

    ADMIN = "admin"
    JOBS_WRITE = "jobs:write"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Key:
    """The key that a request came with, verified."""

    key_id: str
    name: str
    scopes: frozenset[str]

    def allows(self, scope: Scope) -> bool:
        """Tell whether the key covers a scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes


@dataclass(frozen=True, slots=True)
class _Entry:
    """What the database said about a key id; `hash` is empty where no usable key has that id."""

    key: Key
    hash: str
    good_until: float


class KeyRing:
    """Verifies keys; remembers each for a few seconds, so that a request costs no round trip of its own.

    A revoked key may still be accepted for that long.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def verify(self, presented: str) -> Key:
        """Return the key; raises UnauthorizedError when it is malformed, unknown, wrong, expired or revoked."""
        key_id = _key_id(presented)
        presented_hash = _hash(presented)
        entry = self._entry(key_id, presented_hash)
        # Unknown ids are compared too, so that the time taken does not tell which ids exist.
        if not hmac.compare_digest(entry.hash, presented_hash):
            raise UnauthorizedError("The API key is not valid.")
        return entry.key

    def _entry(self, key_id: str, presented_hash: str) -> _Entry:
        with self._lock:
            entry = self._entries.get(key_id)
            if entry is not None and entry.good_until > time.monotonic():
                self._entries.move_to_end(key_id)
                return entry
        entry = self._load(key_id, presented_hash)
        with self._lock:
            self._entries[key_id] = entry
            while len(self._entries) > CACHE_SIZE:
                self._entries.popitem(last=False)
        return entry

    def _load(self, key_id: str, presented_hash: str) -> _Entry:
        asked_at = time.monotonic()
        rows = self._database.fetch(FIND, {"key_id": key_id, "key_hash": presented_hash})
        row = rows[0] if rows else None
        good_until = asked_at + CACHE_SECONDS
        if row is None or row.revoked or (row.seconds_left is not None and row.seconds_left <= 0):
            return _Entry(Key(key_id, "", frozenset()), "", good_until)
        if row.seconds_left is not None:
            good_until = min(good_until, asked_at + row.seconds_left)
        return _Entry(Key(key_id, row.name, frozenset(row.scopes)), row.key_hash, good_until)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as the administrator sees it."""

    key_id: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    state: str


def create(database: Database, name: str, scopes: Sequence[Scope], expires_at: datetime | None) -> str:
    """Store a new key and return it; it cannot be read again."""
    key_id = secrets.token_hex(8)
    key = f"te_{key_id}_{secrets.token_hex(24)}"
    database.fetch(
        CREATE,
        {
            "key_id": key_id,
            "name": name,
            "key_hash": _hash(key),
            "scopes": "[" + ", ".join(f'"{scope}"' for scope in scopes) + "]",
            "expires_at": expires_at,
        },
    )
    return key


def list_keys(database: Database) -> list[StoredKey]:
    """Read all keys, oldest first."""
    return [
        StoredKey(
            key_id=row.key_id,
            name=row.name,
            scopes=tuple(row.scopes),
            created_at=row.created_at,
            expires_at=row.expires_at,
            last_used_at=row.last_used_at,
            state="revoked" if row.revoked_at is not None else "expired" if row.expired else "active",
        )
        for row in database.fetch(LIST)
    ]


def revoke(database: Database, key_id: str) -> str | None:
    """Revoke a key for good and return its name; None when there is no such key."""
    rows = database.fetch(REVOKE, {"key_id": key_id})
    return str(rows[0].name) if rows else None


def _key_id(presented: str) -> str:
    prefix, _, rest = presented.partition("_")
    key_id, separator, secret = rest.partition("_")
    if prefix != "te" or not separator or not secret or not key_id.isalnum() or len(presented) > 200:
        raise UnauthorizedError("The API key is not valid.")
    return key_id


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
