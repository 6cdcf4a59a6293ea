"""Signing keys: random, one per database and purpose, so that all web processes accept each other's signatures."""

import secrets

from app.kernel.db import Database
from app.kernel.sql import statement

KEY_BYTES = 32

READ = statement("signing_keys.read", "SELECT key FROM signing_keys WHERE purpose = :purpose")
STORE = statement(
    "signing_keys.store",
    "INSERT INTO signing_keys (purpose, key) VALUES (:purpose, :key) ON CONFLICT (purpose) DO NOTHING",
)


class SigningKey:
    """A key that is read at its first use, and created if it is missing; safe to use from several threads."""

    def __init__(self, database: Database, purpose: str) -> None:
        self._database = database
        self._purpose = purpose
        self._key: bytes | None = None

    def get(self) -> bytes:
        """Return the key; raises UnavailableError if it has to be read and the database is unreachable."""
        while self._key is None:
            rows = self._database.fetch(READ, {"purpose": self._purpose})
            if rows:
                self._key = bytes(rows[0].key)
            else:
                # If two processes create a key, one key is stored, and both processes read it.
                self._database.fetch(STORE, {"purpose": self._purpose, "key": secrets.token_bytes(KEY_BYTES)})
        return self._key
