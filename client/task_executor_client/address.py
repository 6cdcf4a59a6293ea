"""Address of the service with the API key, both checked before the first request."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Address:
    """Base URL and API key; `repr` hides the key. Build it with `of`, which checks both."""

    base_url: str
    api_key: str = field(repr=False)

    @classmethod
    def of(cls, base_url: str, api_key: str) -> "Address":
        """Check and build an address.

        Args:
            base_url: http or https URL without user, password, query and fragment.
            api_key: API key of printable ASCII.

        Raises:
            ValueError: The URL or the key is malformed. The message contains neither the key nor a password.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("base_url must be an http or https URL, such as https://task-executor.example.org")
        if parts.username is not None or parts.password is not None:
            raise ValueError("base_url must not contain a user or password: pass the key as api_key")
        if parts.query or parts.fragment:
            raise ValueError("base_url must not contain a query or fragment")
        # Checked here, because the message of an HTTP library would contain the key.
        if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
            raise ValueError("api_key must be printable ASCII without spaces: check for a trailing line break")
        return cls(base_url.rstrip("/"), api_key)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {
            "Authorization": f"Bearer {self.api_key}",
            "Accept": "application/json, text/plain",
            # No compression: a small compressed body could decompress beyond the limit.
            "Accept-Encoding": "identity",
            "User-Agent": "task-executor-client",
        }
