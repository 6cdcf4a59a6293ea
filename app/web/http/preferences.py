"""Preferences of requests (RFC 7240): wait for the result, or answer at once."""

from dataclasses import dataclass
from typing import Any

HEADER = "Prefer"
PARAMETER: dict[str, Any] = {
    "name": HEADER,
    "in": "header",
    "description": "`wait=10`: answer when the job's execution has ended, with its `result`, or with 202 after 10 "
    "seconds (60 at most); `respond-async`: answer 202 at once",
    "schema": {"type": "string", "example": "wait=10"},
}


@dataclass(frozen=True, slots=True)
class Preferences:
    """Preferences of a client; None or false if absent or malformed."""

    wait_seconds: int | None
    responds_async: bool

    @classmethod
    def read(cls, header: str) -> "Preferences":
        """Parse a header's value; the first occurrence of a preference counts."""
        named: dict[str, str] = {}
        for part in header.split(","):
            name, _, value = part.partition(";")[0].partition("=")
            named.setdefault(name.strip().lower(), value.strip().strip('"'))
        wait = named.get("wait", "")
        is_number = wait.isascii() and wait.isdigit() and len(wait) < 10
        return cls(int(wait) if is_number else None, named.get("respond-async") == "")

    def applied(self, wait_seconds: int | None) -> dict[str, str]:
        """Return the Preference-Applied header, with the wait in effect."""
        words = ["respond-async"] if self.responds_async else []
        if wait_seconds is not None:
            words.append(f"wait={wait_seconds}")
        return {"Preference-Applied": ", ".join(words)} if words else {}
