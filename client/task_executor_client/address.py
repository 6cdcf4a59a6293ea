"""Where the service is and with which key: both are checked before anything is sent."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Address:
    """The service; its `repr` has no key."""

    base_url: str
    api_key: str = field(repr=False)

    @classmethod
    def of(cls, base_url: str, api_key: str) -> "Address":
        """Check and build an address; raises ValueError with a message that holds neither a key nor a password."""
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("base_url must be like https://task-executor.example.org")
        if parts.username is not None or parts.password is not None:
            raise ValueError("base_url must hold no user and no password: the API key is given apart")
        if parts.query or parts.fragment:
            raise ValueError("base_url must have no query and no fragment")
        # A library would repeat the header in its message.
        if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
            raise ValueError("api_key must be one word of printable ASCII: is there a line break at its end?")
        return cls(base_url.rstrip("/"), api_key)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {
            "Authorization": f"Bearer {self.api_key}",
            "Accept": "application/json, text/plain",
            # What is not compressed cannot unfold into more than was read.
            "Accept-Encoding": "identity",
            "User-Agent": "task-executor-client",
        }
