"""Encryption of secrets at rest: encrypted on write, decrypted in workers only."""

from typing import Self

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from app.config import SettingError

VARIABLE = "TE_SECRET_ENCRYPTION_KEY"
HOW_TO_MAKE_ONE = "flask --app app secrets generate-key"


class UndecryptableError(Exception):
    """A stored secret was not encrypted with any of the keys in TE_SECRET_ENCRYPTION_KEY."""


class SecretBox:
    """Encrypts with the first key, decrypts with any: put a new key in front to rotate."""

    def __init__(self, fernet: MultiFernet) -> None:
        self._fernet = fernet

    @classmethod
    def from_setting(cls, text: str) -> Self:
        """Read the keys, comma-separated; raises SettingError, which never repeats a key."""
        keys = [item.strip() for item in text.split(",") if item.strip()]
        if not keys:
            raise SettingError(f"{VARIABLE} is not set, and secrets need it; make a key with: {HOW_TO_MAKE_ONE}")
        return cls(MultiFernet([_fernet(key, number) for number, key in enumerate(keys, 1)]))

    def encrypt(self, value: str) -> bytes:
        """Encrypt a secret for the database."""
        return self._fernet.encrypt(value.encode())

    def decrypt(self, token: bytes) -> str:
        """Decrypt a stored secret; raises UndecryptableError when no key fits."""
        try:
            return self._fernet.decrypt(bytes(token)).decode()
        except InvalidToken:
            raise UndecryptableError(f"none of the keys in {VARIABLE} decrypts it") from None


def generate_key() -> str:
    """Generate a key for TE_SECRET_ENCRYPTION_KEY."""
    return Fernet.generate_key().decode()


def _fernet(key: str, number: int) -> Fernet:
    try:
        return Fernet(key)
    except ValueError:
        raise SettingError(
            f"{VARIABLE}: key number {number} is not 32 bytes in URL-safe base64; make a key with: {HOW_TO_MAKE_ONE}"
        ) from None
