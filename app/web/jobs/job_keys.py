"""Idempotency keys of jobs, from a body or a header."""

from collections.abc import Mapping
from typing import Any

from app.web.http.body import invalid
from app.web.http.idempotency_keys import HEADER, PARAMETER, key_in_header

PARAMETER_OF_JOBS = PARAMETER | {"description": "instead of `idempotency_key` in the body"}


def key_of(body: Mapping[str, Any]) -> str | None:
    """Return the key of a new job from its body or the header; both may be given if they agree.

    Raises InvalidRequestError where they do not, and where a one-shot job has none.
    """
    own, header = body.get("idempotency_key"), key_in_header()
    if own is not None and header is not None and own != header:
        raise invalid([{"pointer": "/idempotency_key", "message": f"Differs from the {HEADER} header."}])
    key: str | None = own if own is not None else header
    if key is None and not body["trigger"].repeats:
        raise invalid([{"pointer": "/idempotency_key", "message": f"Needed here or in the {HEADER} header."}])
    return key
