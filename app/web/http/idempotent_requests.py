"""Requests with an Idempotency-Key: the same one again changes nothing more, and gets the first answer."""

import hashlib
import hmac
import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from flask import Flask, Response, current_app, g, request

from app.kernel import idempotency, ids
from app.kernel.errors import IdempotencyKeyReusedError
from app.kernel.idempotency import Answer, KeyedRequest
from app.web.http.body import read_json
from app.web.http.idempotency_keys import REPLAYED, key_in_header
from app.web.openapi.resource import Resource
from app.web.services import holding_hints, services

View = Callable[..., Any]


def register(app: Flask) -> None:
    """Let the operations that are described as taking a key take it."""
    for blueprint, found in app.blueprints.items():
        resource = Resource.of(found)
        for view, takes_body in resource.keyed.items() if resource is not None else ():
            name = f"{blueprint}.{view}"
            app.view_functions[name] = _keyed(app.view_functions[name], takes_body=takes_body)


def _keyed(view: View, *, takes_body: bool) -> View:
    @wraps(view)
    def answer(**path: Any) -> Any:
        key = key_in_header()
        if key is None:
            return view(**path)
        wanted = KeyedRequest(g.api_key.key_id, key, _fingerprint(takes_body=takes_body), ids.request_id())
        with holding_hints() as hints:

            def once() -> Any:
                hints.clear()
                return _first_or_again(wanted, lambda: current_app.make_response(view(**path)))

            return services().database.transact_jointly(once)

    return answer


def _first_or_again(wanted: KeyedRequest, make: Callable[[], Response]) -> Response:
    """Make the answer, unless there is one; raises IdempotencyKeyReusedError when the key is another request's."""
    database = services().database
    taken = idempotency.take(database, wanted)
    if not hmac.compare_digest(taken.fingerprint, wanted.fingerprint):
        raise IdempotencyKeyReusedError(
            "This Idempotency-Key was used for another request; each needs a key of its own."
        )
    if taken.answer is not None:
        return _sent(taken.answer, is_again=not taken.is_own)
    # Without an answer a first try was cut off between two of its transactions; what takes several may be repeated.
    answer = make()
    if answer.status_code < 400:
        stored = Answer(answer.status_code, answer.headers.get("ETag"), answer.get_data(as_text=True))
        idempotency.store(database, wanted, stored)
    return answer


def _sent(answer: Answer, *, is_again: bool) -> Response:
    headers = {} if answer.etag is None else {"ETag": answer.etag}
    return Response(answer.body, answer.status, headers | (REPLAYED if is_again else {}), mimetype="application/json")


def _fingerprint(*, takes_body: bool) -> str:
    """Hash what the request asks for.

    With the client's API key, of which nothing but a hash is stored: a body may be a secret that is short enough to
    be found by guessing.
    """
    body = json.dumps(read_json(request), sort_keys=True) if takes_body else ""
    asked = "\n".join([request.method, request.path, request.query_string.decode("latin-1"), body])
    token = request.authorization.token if request.authorization is not None else None
    return hmac.new((token or "").encode(), asked.encode(), hashlib.sha256).hexdigest()
