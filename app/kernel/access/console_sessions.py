"""Sessions of the console: a random secret in a cookie stands for an API key, which is not stored."""

import secrets
import time
from typing import NamedTuple

from app.kernel.access.api_keys import hash_of, is_valid
from app.kernel.access.key_ring import CACHE_SECONDS, Key
from app.kernel.access.look_up_cache import LookUpCache
from app.kernel.access.stored_texts import StoredTexts
from app.kernel.db import Database
from app.kernel.db.deletion import deletion
from app.kernel.function_types import Clock
from app.kernel.sql import statement

CACHE_SIZE = 1_000
SECRET_BYTES = 32
LINK_SECONDS = 60
SEEN_EVERY_SECONDS = 60

BEGIN = statement(
    "console_sessions.begin",
    """
    INSERT INTO console_sessions (session_hash, key_id, is_link, expires_at)
    VALUES (:session_hash, :key_id, :is_link, now() + CAST(:seconds AS BIGINT) * INTERVAL '1 second')
    ON CONFLICT (session_hash) DO NOTHING
    """,
)
# The link becomes the session, so it works once.
USE_LINK = statement(
    "console_sessions.use_link",
    """
    UPDATE console_sessions
       SET session_hash = :session_hash, is_link = false, created_at = now(), last_seen_at = now(),
           expires_at = now() + CAST(:seconds AS BIGINT) * INTERVAL '1 second'
     WHERE session_hash = :link_hash AND is_link AND expires_at > now()
    RETURNING key_id
    """,
)
# One round trip reads a session with its key, and marks it as seen, at most once a minute.
FIND = statement(
    "console_sessions.find",
    """
    WITH seen AS (
      UPDATE console_sessions SET last_seen_at = now()
       WHERE session_hash = :session_hash AND NOT is_link AND expires_at > now()
         AND last_seen_at > now() - CAST(:idle AS BIGINT) * INTERVAL '1 second'
         AND last_seen_at < now() - {seen_every_seconds} * INTERVAL '1 second'
      RETURNING session_hash)
    SELECT s.key_id, k.name, k.scopes,
           CAST(EXTRACT(EPOCH FROM LEAST(s.expires_at, COALESCE(k.expires_at, s.expires_at)) - now())
                AS DOUBLE PRECISION) AS seconds_left
      FROM console_sessions AS s JOIN api_keys AS k ON k.key_id = s.key_id
     WHERE s.session_hash = :session_hash AND NOT s.is_link AND s.expires_at > now() AND {valid_key}
       AND s.last_seen_at > now() - CAST(:idle AS BIGINT) * INTERVAL '1 second'
    """,
    seen_every_seconds=SEEN_EVERY_SECONDS,
    valid_key=is_valid("k"),
)
HASHES = statement(
    "console_sessions.hashes", "SELECT session_hash FROM console_sessions WHERE NOT is_link AND expires_at > now()"
)
END = statement("console_sessions.end", "DELETE FROM console_sessions WHERE session_hash = :session_hash")
PRUNE = deletion(
    "console_sessions.prune",
    "console_sessions",
    ["session_hash"],
    "expires_at < now()",
    time="expires_at",
    shown=["key_id"],
)


class _CachedSession(NamedTuple):
    key: Key | None
    good_until: float


class ConsoleSessions:
    """Sessions by their secrets. A cache keeps each session for CACHE_SECONDS, so most requests cost no round trip.

    A session of a revoked key may be accepted for that long, as the key itself.
    """

    def __init__(self, database: Database, *, seconds: int, idle_seconds: int, clock: Clock = time.monotonic) -> None:
        self._database = database
        self._seconds = seconds
        self._idle_seconds = idle_seconds
        self._clock = clock
        self.cache_seconds = CACHE_SECONDS
        self._cache = LookUpCache[_CachedSession](CACHE_SIZE)
        self._hashes = StoredTexts(database, HASHES, clock)

    def begin(self, key_id: str) -> str:
        """Store a new session of a verified key, and return its secret."""
        secret = _stored(self._database, key_id, self._seconds, is_link=False)
        self._hashes.add(hash_of(secret))
        return secret

    def begin_by_link(self, link: str) -> str | None:
        """Use up a one-time link, and return the secret of its session; None if the link is unknown, used or late."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        session_hash = hash_of(secret)
        values = {"session_hash": session_hash, "link_hash": hash_of(link), "seconds": self._seconds}
        if not self._database.fetch(USE_LINK, values):
            return None
        self._hashes.add(session_hash)
        return secret

    def is_known(self, secret: str) -> bool:
        """Return whether a secret was that of a session at its last look-up, or needs no look-up."""
        session_hash = hash_of(secret)
        cached = self._cache.find(session_hash)
        return cached is not None and (cached.key is not None or cached.good_until > self._clock())

    def exists(self, secret: str) -> bool:
        """Return whether a session has a secret now, or had it a second ago: for floods of texts of no session."""
        return hash_of(secret) in self._hashes.latest()

    def verify(self, secret: str) -> Key | None:
        """Return the key of a session; None if the session has ended, or its key is no longer valid."""
        session_hash = hash_of(secret)
        cached = self._cache.find(session_hash)
        if cached is None or cached.good_until <= self._clock():
            cached = self._load(session_hash)
            self._cache.remember(session_hash, cached, is_good=cached.key is not None)
        return cached.key

    def end(self, secret: str) -> None:
        """End a session; other processes may accept it for CACHE_SECONDS."""
        session_hash = hash_of(secret)
        self._database.fetch(END, {"session_hash": session_hash})
        self._cache.forget(session_hash)

    def _load(self, session_hash: str) -> _CachedSession:
        asked_at = self._clock()
        rows = self._database.fetch(FIND, {"session_hash": session_hash, "idle": self._idle_seconds})
        if not rows:
            return _CachedSession(None, asked_at + self.cache_seconds)
        row = rows[0]
        key = Key(row.key_id, row.name, frozenset(row.scopes))
        return _CachedSession(key, asked_at + min(self.cache_seconds, row.seconds_left))


def new_link(database: Database, key_id: str) -> str:
    """Store a one-time link of a verified key, good for LINK_SECONDS, and return its secret."""
    return _stored(database, key_id, LINK_SECONDS, is_link=True)


def link_to(url: str, link: str) -> str:
    """Return the address of a one-time link; servers and their logs do not get the part behind the `#`."""
    return f"{url.rstrip('/')}/console/sign-in#{link}"


def _stored(database: Database, key_id: str, seconds: int, *, is_link: bool) -> str:
    secret = secrets.token_urlsafe(SECRET_BYTES)
    values = {"session_hash": hash_of(secret), "key_id": key_id, "is_link": is_link, "seconds": seconds}
    database.fetch(BEGIN, values)
    return secret
