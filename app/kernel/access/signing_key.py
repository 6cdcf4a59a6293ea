"""Signing keys: random, one per database and purpose, so that all web processes accept what one of them signed."""

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
    """A key that is read when it is first needed, and made by whoever finds none; safe to use from several threads."""

    def __init__(self, database: Database, purpose: str) -> None:
        self._database = database
        self._purpose = purpose
        self._key: bytes | None = None

    def get(self) -> bytes:
        """Return the key; raises UnavailableError when it has to be read and the database cannot be reached."""
        while self._key is None:
            rows = self._database.fetch(READ, {"purpose": self._purpose})
            if rows:
                self._key = bytes(rows[0].key)
            else:
                # Of two processes one stores its key, and both read that one.
                self._database.fetch(STORE, {"purpose": self._purpose, "key": secrets.token_bytes(KEY_BYTES)})
        return self._key
