"""Idempotency keys, from a body or a header."""

from collections.abc import Mapping
from typing import Any

from flask import request

from app.api.http.body import invalid
from app.api.jobs.schemas import MAX_KEY

REPLAYED = {"Idempotency-Replayed": "true"}
REPLAYED_DOC = {"Idempotency-Replayed": {"description": "on the first job again", "schema": {"const": "true"}}}
_HEADER = "Idempotency-Key"
PARAMETER = {
    "in": "header",
    "name": _HEADER,
    "description": "instead of `idempotency_key` in the body",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY},
}


def key_of(body: Mapping[str, Any]) -> str | None:
    """Return the key of a new job from its body or the header; both may be given if they agree.

    Raises InvalidRequestError where they do not, and where a one-shot job has none.
    """
    own, header = body.get("idempotency_key"), key_in_header()
    if own is not None and header is not None and own != header:
        raise invalid([{"pointer": "/idempotency_key", "message": f"Differs from the {_HEADER} header."}])
    key: str | None = own if own is not None else header
    if key is None and not body["trigger"].repeats:
        raise invalid([{"pointer": "/idempotency_key", "message": f"Needed here or in the {_HEADER} header."}])
    return key


def key_in_header() -> str | None:
    """Read the Idempotency-Key header; raises InvalidRequestError for one that cannot be a key."""
    header = request.headers.get(_HEADER)
    if header is not None and not (1 <= len(header) <= MAX_KEY and header.isascii() and header.isprintable()):
        raise invalid([{"pointer": _HEADER, "message": f"Must be 1 to {MAX_KEY} printable ASCII characters."}])
    return header
