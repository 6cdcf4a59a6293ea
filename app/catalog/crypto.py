"""Encryption of secrets at rest: encrypted on write, decrypted in workers and during key rotation."""

import contextlib
import hashlib
from collections.abc import Sequence
from typing import Self

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from app.kernel.config import SettingError

VARIABLE = "TE_SECRET_ENCRYPTION_KEY"
HOW_TO_MAKE_ONE = "flask --app app secrets generate-key"
HOW_TO_READ = (
    f"give this process every key in use ({VARIABLE}=first,second) and restart it; "
    "`flask --app app secrets status` counts the secrets under each key"
)


class UndecryptableError(Exception):
    """A stored secret was not encrypted with any of the keys in TE_SECRET_ENCRYPTION_KEY."""


class SecretBox:
    """Encrypts with the first key, decrypts with any: put a new key in front to rotate."""

    def __init__(self, keys: Sequence[str]) -> None:
        fernets = [_fernet(key, number) for number, key in enumerate(keys, 1)]
        self._fernet = MultiFernet(fernets)
        self._by_id = dict(zip(map(key_id, keys), fernets, strict=True))

    @classmethod
    def from_setting(cls, text: str) -> Self:
        """Read the keys, comma-separated; raises SettingError, which never repeats a key."""
        keys = [item.strip() for item in text.split(",") if item.strip()]
        if not keys:
            raise SettingError(f"{VARIABLE} is not set, but secrets need a key; make a key with: {HOW_TO_MAKE_ONE}")
        return cls(keys)

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Ids of the keys, first the id of the encrypting key."""
        return tuple(self._by_id)

    def encrypt(self, value: str) -> bytes:
        return self._fernet.encrypt(value.encode())

    def decrypt(self, token: bytes) -> str:
        """Decrypt a stored secret; raises UndecryptableError when no key fits."""
        try:
            return self._fernet.decrypt(bytes(token)).decode()
        except InvalidToken:
            raise UndecryptableError(f"none of the keys in {VARIABLE} decrypts it") from None

    def rotate(self, token: bytes) -> bytes:
        """Encrypt a stored secret again, with the first key; only if `key_of` returns its key."""
        return self._fernet.rotate(bytes(token))

    def key_of(self, token: bytes) -> str | None:
        """Return the id of the key that decrypts a stored secret; None if no key does."""
        for name, fernet in self._by_id.items():
            with contextlib.suppress(InvalidToken):
                fernet.decrypt(bytes(token))
                return name
        return None


def key_id(key: str) -> str:
    """Return a short name of a key, for people to compare; the name reveals nothing about the key."""
    return hashlib.sha256(b"task-executor secret encryption key " + key.encode()).hexdigest()[:8]


def generate_key() -> str:
    return Fernet.generate_key().decode()


def _fernet(key: str, number: int) -> Fernet:
    try:
        return Fernet(key)
    except ValueError:
        raise SettingError(
            f"{VARIABLE}: key number {number} is not 32 bytes in URL-safe base64; make a key with: {HOW_TO_MAKE_ONE}"
        ) from None
