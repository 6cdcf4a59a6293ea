"""Verification of the API keys in requests."""

import hmac
import re
import time
from typing import NamedTuple

from app.kernel.access.api_keys import CREATE_PREFIX, WORK_PREFIX, Scope, hash_of, is_valid
from app.kernel.access.look_up_cache import LookUpCache
from app.kernel.access.stored_texts import StoredTexts
from app.kernel.db import Database
from app.kernel.errors import UnauthorizedError
from app.kernel.function_types import Clock, Run, never
from app.kernel.name_patterns import matches
from app.kernel.sql import statement

CACHE_SECONDS = 5.0
CACHE_SIZE = 10_000
USED_EVERY_SECONDS = 60
MAX_KEY = 200  # characters
_KEY = re.compile(r"te_([0-9A-Za-z]+)_.+", re.DOTALL)

# One round trip reads a key and marks it as used, at most once a minute. The comparison of hashes here decides only
# about the mark; `KeyRing` decides about access, in constant time.
FIND = statement(
    "api_keys.find",
    """
    WITH used AS (
      UPDATE api_keys SET last_used_at = now()
       WHERE key_id = :key_id AND key_hash = :key_hash AND {is_valid}
         AND (last_used_at IS NULL OR last_used_at < now() - {used_every_seconds} * INTERVAL '1 second')
      RETURNING key_id)
    SELECT key_hash, name, scopes, revoked_at IS NOT NULL AS revoked,
           CAST(EXTRACT(EPOCH FROM expires_at - now()) AS DOUBLE PRECISION) AS seconds_left
      FROM api_keys WHERE key_id = :key_id
    """,
    is_valid=is_valid("api_keys"),
    used_every_seconds=USED_EVERY_SECONDS,
)

IDS = statement("api_keys.ids", "SELECT key_id FROM api_keys WHERE {is_valid}", is_valid=is_valid("api_keys"))


class Key(NamedTuple):
    """A verified key of a request."""

    key_id: str
    name: str
    scopes: frozenset[str]

    def allows(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes

    @property
    def endpoint_patterns(self) -> list[str]:
        """Return the patterns of the endpoints for which the key may only create jobs."""
        return self._patterns(CREATE_PREFIX)

    @property
    def queue_patterns(self) -> list[str]:
        """Return the patterns of the Dramatiq queues to which the key is limited as a worker of actors."""
        return self._patterns(WORK_PREFIX)

    def may_create(self, endpoint: str) -> bool:
        return self.allows(Scope.JOBS_WRITE) or any(matches(each, endpoint) for each in self.endpoint_patterns)

    def may_work(self, queue: str) -> bool:
        return self.allows(Scope.ACTORS_WORK) or any(matches(each, queue) for each in self.queue_patterns)

    def _patterns(self, prefix: str) -> list[str]:
        return sorted(each.removeprefix(prefix) for each in self.scopes if each.startswith(prefix))


class _CachedKey(NamedTuple):
    """Stored key of an id; `hash` is empty if no valid key has the id."""

    key: Key
    hash: str
    good_until: float


class KeyRing:
    """Verifies keys. A cache keeps each key for CACHE_SECONDS, so most requests cost no round trip for their key.

    A revoked key may be accepted for that long. During a flood of bad keys, keys with unknown ids are refused without a
    look-up: the ids of all keys, which are few, are then read at most once a second.
    """

    def __init__(self, database: Database, clock: Clock = time.monotonic, *, cache_size: int = CACHE_SIZE) -> None:
        self._database = database
        self._clock = clock
        self.cache_seconds = CACHE_SECONDS
        self._cache = LookUpCache[_CachedKey](cache_size)
        self._ids = StoredTexts(database, IDS, clock)

    def verify(self, presented: str, is_flooded: Run[bool] = never) -> Key:
        """Return the key; raises UnauthorizedError if it is malformed, unknown, wrong, expired or revoked.

        While `is_flooded` returns true, a key that was not good at its last look-up is looked up only if its id exists.
        """
        matched = _KEY.fullmatch(presented) if len(presented) <= MAX_KEY and presented.isascii() else None
        if matched is None:
            raise UnauthorizedError("The API key is not valid.")
        key_id = matched[1]
        presented_hash = hash_of(presented)
        entry = self._cache.find(key_id)
        if entry is None or entry.good_until <= self._clock():
            if not (entry and entry.hash) and is_flooded() and key_id not in self.ids():
                raise UnauthorizedError("The API key is not valid.")
            entry = self._load(key_id, presented_hash)
            self._cache.remember(key_id, entry, is_good=bool(entry.hash))
        # Unknown ids are compared too, so that the duration does not reveal which ids exist.
        if not hmac.compare_digest(entry.hash, presented_hash):
            raise UnauthorizedError("The API key is not valid.")
        return entry.key

    def ids(self) -> frozenset[str]:
        """Return the ids of all keys that are valid now, or were valid a second ago."""
        # The duration may reveal which ids exist; an id is not a secret.
        return self._ids.latest()

    def _load(self, key_id: str, presented_hash: str) -> _CachedKey:
        asked_at = self._clock()
        rows = self._database.fetch(FIND, {"key_id": key_id, "key_hash": presented_hash})
        row = rows[0] if rows else None
        good_until = asked_at + self.cache_seconds
        if row is None or row.revoked or (row.seconds_left is not None and row.seconds_left <= 0):
            return _CachedKey(Key(key_id, "", frozenset()), "", good_until)
        if row.seconds_left is not None:
            good_until = min(good_until, asked_at + row.seconds_left)
        return _CachedKey(Key(key_id, row.name, frozenset(row.scopes)), row.key_hash, good_until)
