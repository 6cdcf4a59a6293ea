"""Idempotency-Key header (draft-ietf-httpapi-idempotency-key-header): validation and description."""

from flask import request

from app.kernel.idempotency import KEPT_HOURS
from app.web.http.body import invalid
from schema.job_bounds import MAX_IDEMPOTENCY_KEY

HEADER = "Idempotency-Key"
REPLAYED = {"Idempotency-Replayed": "true"}

# For the OpenAPI document.
PARAMETER = {
    "in": "header",
    "name": HEADER,
    "description": (
        f"chosen by the client, for example a UUID: for {KEPT_HOURS} hours, a repetition of the request with the same "
        "key changes nothing and gets the first answer again"
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_IDEMPOTENCY_KEY},
}
REPLAYED_DOC = {
    "Idempotency-Replayed": {"description": "present if the answer is a replay", "schema": {"const": "true"}}
}


def key_in_header() -> str | None:
    """Return the Idempotency-Key header; raises InvalidRequestError for an invalid key."""
    header = request.headers.get(HEADER)
    if header is not None and not (
        1 <= len(header) <= MAX_IDEMPOTENCY_KEY and header.isascii() and header.isprintable()
    ):
        raise invalid(
            [{"pointer": HEADER, "message": f"Must be 1 to {MAX_IDEMPOTENCY_KEY} printable ASCII characters."}]
        )
    return header
