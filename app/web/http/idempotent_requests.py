"""Idempotent requests: a repetition with the same Idempotency-Key changes nothing and gets the first answer.

The header is that of draft-ietf-httpapi-idempotency-key-header.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from functools import partial, wraps
from typing import Any

from flask import Response, current_app, g, request
from marshmallow import ValidationError

from app.kernel import idempotency, ids
from app.kernel.errors import IdempotencyKeyReusedError
from app.kernel.function_types import AnyFunction, Call
from app.kernel.idempotency import KEPT_HOURS, KeyedRequest, StoredAnswer
from app.web.http.body import invalid, read_json
from app.web.http.request_fields import check_key
from app.web.http.unproxied import current_request
from app.web.services import holding_hints, services
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
    header = current_request().headers.get(HEADER)
    if header is not None and not (
        1 <= len(header) <= MAX_IDEMPOTENCY_KEY and header.isascii() and header.isprintable()
    ):
        raise invalid(
            [{"pointer": HEADER, "message": f"Must be 1 to {MAX_IDEMPOTENCY_KEY} printable ASCII characters."}]
        )
    return header


def with_header_key(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body with the key in the header as its `idempotency_key`, if there is one.

    Raises InvalidRequestError if the body has another key, or if the key is one of the service's own.
    """
    key = key_in_header()
    if key is None:
        return body
    try:
        check_key(key)
    except ValidationError as error:
        raise invalid([{"pointer": HEADER, "message": str(error.messages[0])}]) from None
    if body.get("idempotency_key") not in (None, key):
        raise invalid([{"pointer": "/idempotency_key", "message": f"Differs from the {HEADER} header."}])
    return body | {"idempotency_key": key}


def event_id() -> str:
    """Return an id for the event that records the change of this request; a run or sending with its key gets the same.

    A view of several transactions recognises by the event that an earlier run has committed the change.
    """
    request_id = g.get("key_taken_by")
    return ids.event_id() if request_id is None else f"evt_{request_id.removeprefix('req_')}"


def after_commit(work: Call) -> None:
    """Run work after the commit of this request's change and of the answer to its key; at once without a key.

    If the process dies or the answer of the commit is lost, the work is lost: another process has to find it.
    """
    later: list[Call] | None = g.get("after_commit")
    if later is None:
        work()
    else:
        later.append(work)


def keyed(view: AnyFunction, *, takes_body: bool) -> AnyFunction:
    """Wrap a view to run once per Idempotency-Key of an API key; its answer is stored with the key."""

    @wraps(view)
    def once(**path: Any) -> Any:
        key = key_in_header()
        if key is None:
            return view(**path)
        return run_once(view, key, _fingerprint(takes_body=takes_body), path)

    return once


def run_once(view: AnyFunction, key: str, fingerprint: str, path: Mapping[str, Any]) -> Response:
    """Run a view once per Idempotency-Key of the current API key, and return its first answer."""
    wanted = KeyedRequest(g.api_key.key_id, key, fingerprint, ids.request_id())
    with holding_hints() as hints:
        later = g.after_commit = list[Call]()
        answer = services().database.transact_jointly(partial(_first_or_again, view, wanted, hints, path))
        for work in later:
            work()
    return answer


def _first_or_again(view: AnyFunction, wanted: KeyedRequest, hints: set[Any], path: Mapping[str, Any]) -> Response:
    """Return the stored answer or run the view; raises IdempotencyKeyReusedError if the requests differ."""
    hints.clear()  # left by an earlier run that was rolled back
    g.after_commit.clear()
    database = services().database
    taken = idempotency.take(database, wanted)
    if not hmac.compare_digest(taken.fingerprint, wanted.fingerprint):
        message = "This Idempotency-Key was used for another request. Use a new key."
        raise IdempotencyKeyReusedError(message, [{"pointer": HEADER, "message": message}])
    if taken.answer is not None:
        return _sent(taken.answer, is_again=not taken.is_own)
    # No answer is stored if the first run ended between two transactions; such views are repeatable.
    g.key_taken_by = taken.request_id
    answer = current_app.make_response(view(**path))
    if answer.status_code < 400 and _is_replayable(answer):
        stored = StoredAnswer(answer.status_code, answer.headers.get("ETag"), answer.get_data(as_text=True))
        idempotency.store(database, wanted, stored)
    return answer


def _is_replayable(answer: Response) -> bool:
    """Return whether a replay equals the answer: pages of the console are made again, not kept with inputs."""
    return answer.is_json or not answer.get_data()


def _sent(answer: StoredAnswer, *, is_again: bool) -> Response:
    headers = {} if answer.etag is None else {"ETag": answer.etag}
    return Response(answer.body, answer.status, headers | (REPLAYED if is_again else {}), mimetype="application/json")


def _fingerprint(*, takes_body: bool) -> str:
    """Return a keyed hash of the request.

    The hash key is the API key, which is not stored: otherwise a short secret in the body could be guessed from the
    hash.
    """
    body = json.dumps(read_json(request), sort_keys=True) if takes_body else ""
    asked = "\n".join([request.method, request.path, request.query_string.decode("latin-1"), body])
    token = request.authorization.token if request.authorization is not None else None
    return hmac.new((token or "").encode(), asked.encode(), hashlib.sha256).hexdigest()
