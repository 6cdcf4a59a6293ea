"""Preferences of requests (RFC 7240): how long a client waits for an outcome, or that it waits for none."""

from dataclasses import dataclass
from typing import Any

HEADER = "Prefer"
PARAMETER: dict[str, Any] = {
    "name": HEADER,
    "in": "header",
    "description": "`wait=10`: answer once the job's execution is over, with its `result`, or after so many seconds "
    "(60 at most) with 202; `respond-async`: answer 202 at once. Both, for those that respect neither",
    "schema": {"type": "string", "example": "wait=10"},
}


@dataclass(frozen=True, slots=True)
class Preferences:
    """What a client prefers; what it does not say, or says wrongly, is None or false."""

    wait_seconds: int | None
    responds_async: bool

    @classmethod
    def read(cls, header: str) -> "Preferences":
        """Read a header's value; of a preference that is named twice the first one counts."""
        named: dict[str, str] = {}
        for part in header.split(","):
            name, _, value = part.partition(";")[0].partition("=")
            named.setdefault(name.strip().lower(), value.strip().strip('"'))
        wait = named.get("wait", "")
        is_number = wait.isascii() and wait.isdigit() and len(wait) < 10
        return cls(int(wait) if is_number else None, named.get("respond-async") == "")

    def applied(self, wait_seconds: int | None) -> dict[str, str]:
        """Return the header of an answer that says which of them it follows, with the wait as it was followed."""
        words = ["respond-async"] if self.responds_async else []
        if wait_seconds is not None:
            words.append(f"wait={wait_seconds}")
        return {"Preference-Applied": ", ".join(words)} if words else {}
