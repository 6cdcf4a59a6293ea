"""Calls: requests of operations as values."""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

KEY_HEADER = "Idempotency-Key"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_WAIT = re.compile(r"([0-9]{1,9})(ms|s|m)", re.ASCII)
_PREFERRED = re.compile(r'(?:^|,)\s*wait\s*=\s*"?([0-9]{1,9})\b', re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Call:
    """Request of an operation.

    Attributes:
        operation: Name in messages, such as `jobs.get`.
        method: HTTP method.
        path: Path, encoded.
        query: Names and values of the query.
        headers: Names and values of headers.
        content: JSON body; None without a body.
        repeatable: Whether a second sending has no second effect: the call only reads, or has an idempotency key.
        is_text: Whether the answer is text instead of JSON.
        timeout: Seconds for all tries; None selects the client's timeout.
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
        """Build a call.

        Args:
            operation: Name in messages, such as `jobs.get`.
            method: HTTP method.
            template: Path with placeholders, such as `/jobs/{job_id}`.
            path: Values of the placeholders.
            query: Parameters; None leaves a parameter out, a list repeats the parameter.
            headers: Headers; None leaves a header out.
            body: Fields of the JSON body; None for no body.
            key: Idempotency key; None for a random key.
            takes_key: Whether the operation takes an idempotency key.
            key_in_body: Whether the body has a field for the key; a given key is then not sent as header.
            only_reads: Whether a POST changes nothing.
            is_text: Whether the answer is text instead of JSON.
            timeout: Seconds for all tries; None for the client's timeout.

        Raises:
            ValueError: A path segment or a header is malformed, or a datetime has no time zone.
            TypeError: The body is not JSON.
        """
        sent = [(name, _text(value)) for name, value in (headers or {}).items() if value is not None]
        if takes_key and not (key_in_body and key is not None):
            sent.append((KEY_HEADER, key if key is not None else str(uuid.uuid4())))
        for name, value in sent:
            if not value or not value.isascii() or not value.isprintable():
                raise ValueError(f"{name} must be non-empty printable ASCII")
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
        """Return the call for the page at a cursor."""
        return replace(self, query=(*(pair for pair in self.query if pair[0] != "cursor"), ("cursor", cursor)))

    @property
    def held_seconds(self) -> float:
        """Seconds for which `wait` or `Prefer: wait` lets the service delay its answer, at most 60."""
        asked = [found for name, value in self.query if name == "wait" and (found := _WAIT.fullmatch(value))]
        held = [int(found[1]) * _SECONDS[found[2]] for found in asked]
        held += [
            float(found[1]) for name, value in self.headers if name == "Prefer" and (found := _PREFERRED.search(value))
        ]
        return min(60.0, sum(held))

    @property
    def target(self) -> str:
        """Path with the query, both encoded."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


def encoded(body: Any) -> bytes:
    """Return a body as JSON; raises TypeError or ValueError for values that JSON does not have, such as NaN."""
    return json.dumps(body, default=_plain, allow_nan=False, separators=(",", ":")).encode()


def instant(value: datetime) -> str:
    """Return an instant in ISO 8601; raises ValueError without a time zone."""
    if value.tzinfo is None:
        raise ValueError("a datetime needs a time zone, such as timezone.utc")
    return value.isoformat()


def _plain(value: Any) -> str | int:
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    raise TypeError(f"a {type(value).__name__} cannot be sent as JSON")


def _segment(name: str, value: str) -> str:
    # HTTP libraries remove dot segments, which would address another path.
    if not isinstance(value, str) or value in {"", ".", ".."}:
        raise ValueError(f"{name} must be a non-empty name or id, not {value!r}")
    return quote(value, safe="")


def _pairs(query: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    for name, value in query.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        pairs += [(name, _text(each)) for each in values if each is not None]
    return pairs


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return instant(value) if isinstance(value, datetime) else str(value)
