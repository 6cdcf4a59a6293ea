"""A call of an operation as a value: what is sent, and whether it may be sent twice."""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

KEY_HEADER = "Idempotency-Key"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_WAIT = re.compile(r"([0-9]{1,9})(ms|s|m)", re.ASCII)
_PREFERRED = re.compile(r'(?:^|,)\s*wait\s*=\s*"?([0-9]{1,9})\b', re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Call:
    """What is sent. One that is `repeatable` changes nothing more when it is sent again: it reads, or it has a key.

    `timeout` is in seconds, for all tries together; None is that of the client.
    """

    operation: str
    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Sequence[tuple[str, str]] = ()
    content: bytes | None = None
    repeatable: bool = False
    is_text: bool = False
    timeout: float | None = None

    @classmethod
    def of(
        cls,
        operation: str,
        method: str,
        template: str,
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        key: str | None = None,
        takes_key: bool = False,
        key_in_body: bool = False,
        only_reads: bool = False,
        is_text: bool = False,
        timeout: float | None = None,
    ) -> "Call":
        """Build a call; one that takes an idempotency key has a random one unless the caller gives it.

        Raises ValueError for a part of a path or a header that cannot be one, and TypeError for a body that is no JSON.
        """
        sent = [(name, _text(value)) for name, value in (headers or {}).items() if value is not None]
        if takes_key and not (key_in_body and key is not None):
            sent.append((KEY_HEADER, key if key is not None else str(uuid.uuid4())))
        for name, value in sent:
            if not value or not value.isascii() or not value.isprintable():
                raise ValueError(f"{name} must be printable ASCII, and not empty")
        return cls(
            operation=operation,
            method=method,
            path=template.format_map({name: _segment(name, value) for name, value in (path or {}).items()}),
            query=tuple(_pairs(query or {})),
            headers=tuple(sent),
            content=None if body is None else encoded(body),
            repeatable=takes_key or only_reads or method == "GET",
            is_text=is_text,
            timeout=timeout,
        )

    def at(self, cursor: str) -> "Call":
        """Return the call of the page that begins at a cursor."""
        return replace(self, query=(*(pair for pair in self.query if pair[0] != "cursor"), ("cursor", cursor)))

    @property
    def held_seconds(self) -> float:
        """For how long the service is asked to wait with its answer, by `wait` or `Prefer: wait`: a minute at most."""
        asked = [found for name, value in self.query if name == "wait" and (found := _WAIT.fullmatch(value))]
        held = [int(found[1]) * _SECONDS[found[2]] for found in asked]
        held += [
            float(found[1]) for name, value in self.headers if name == "Prefer" and (found := _PREFERRED.search(value))
        ]
        return min(60.0, sum(held))

    @property
    def target(self) -> str:
        """The path and the query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


def encoded(body: Any) -> bytes:
    """Return a body as JSON; raises TypeError or ValueError for what JSON does not have, such as NaN."""
    return json.dumps(body, default=_plain, allow_nan=False, separators=(",", ":")).encode()


def instant(value: datetime) -> str:
    """Return an instant as text; raises ValueError without a time zone: nobody could know which one is meant."""
    if value.tzinfo is None:
        raise ValueError("a datetime without a time zone is not an instant: give it one, such as timezone.utc")
    return value.isoformat()


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return instant(value)
    raise TypeError(f"a {type(value).__name__} cannot be sent as JSON")


def _segment(name: str, value: str) -> str:
    # The dots would be taken away on the way, and another path be called.
    if not isinstance(value, str) or value in {"", ".", ".."}:
        raise ValueError(f"{name} must be a name or an id, not {value!r}")
    return quote(value, safe="")


def _pairs(query: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    for name, value in query.items():
        each = value if isinstance(value, (list, tuple)) else [value]
        pairs += [(name, _text(one)) for one in each if one is not None]
    return pairs


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return instant(value) if isinstance(value, datetime) else str(value)
