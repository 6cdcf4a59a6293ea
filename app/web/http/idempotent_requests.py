"""Idempotent requests: a repetition with the same Idempotency-Key changes nothing and gets the first answer."""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from flask import Flask, Response, current_app, g, request

from app.kernel import idempotency, ids
from app.kernel.errors import IdempotencyKeyReusedError
from app.kernel.idempotency import KeyedRequest, StoredAnswer
from app.web.http.body import PARSER
from app.web.http.idempotency_keys import REPLAYED, key_in_header
from app.web.openapi.resource import Resource
from app.web.services import holding_hints, services

View = Callable[..., Any]


def register(app: Flask, resources: Sequence[Resource]) -> None:
    """Wrap the views of all operations that take an Idempotency-Key."""
    for resource in resources:
        for view, takes_body in resource.keyed.items():
            name = f"{resource.name}.{view}"
            app.view_functions[name] = _KeyedView(app.view_functions[name], takes_body=takes_body)


class _KeyedView:
    """View that runs once per Idempotency-Key of an API key; its answer is stored with the key."""

    def __init__(self, view: View, *, takes_body: bool) -> None:
        self._view = view
        self._takes_body = takes_body

    def __call__(self, **path: Any) -> Any:
        key = key_in_header()
        if key is None:
            return self._view(**path)
        wanted = KeyedRequest(g.api_key.key_id, key, _fingerprint(takes_body=self._takes_body), ids.request_id())
        with holding_hints() as hints:
            return services().database.transact_jointly(partial(self._first_or_again, wanted, hints, path))

    def _first_or_again(self, wanted: KeyedRequest, hints: set[Any], path: Mapping[str, Any]) -> Response:
        """Return the stored answer or run the view; raises IdempotencyKeyReusedError if the requests differ."""
        hints.clear()  # left by an earlier run that was rolled back
        database = services().database
        taken = idempotency.take(database, wanted)
        if not hmac.compare_digest(taken.fingerprint, wanted.fingerprint):
            raise IdempotencyKeyReusedError("This Idempotency-Key was used for another request. Use a new key.")
        if taken.answer is not None:
            return _sent(taken.answer, is_again=not taken.is_own)
        # No answer is stored if the first run ended between two transactions; such views are repeatable.
        answer = current_app.make_response(self._view(**path))
        if answer.status_code < 400:
            stored = StoredAnswer(answer.status_code, answer.headers.get("ETag"), answer.get_data(as_text=True))
            idempotency.store(database, wanted, stored)
        return answer


def _sent(answer: StoredAnswer, *, is_again: bool) -> Response:
    headers = {} if answer.etag is None else {"ETag": answer.etag}
    return Response(answer.body, answer.status, headers | (REPLAYED if is_again else {}), mimetype="application/json")


def _fingerprint(*, takes_body: bool) -> str:
    """Return a keyed hash of the request.

    The hash key is the API key, which is not stored: otherwise a short secret in the body could be guessed from the
    hash.
    """
    body = json.dumps(PARSER.load_json(request, None), sort_keys=True) if takes_body else ""
    asked = "\n".join([request.method, request.path, request.query_string.decode("latin-1"), body])
    token = request.authorization.token if request.authorization is not None else None
    return hmac.new((token or "").encode(), asked.encode(), hashlib.sha256).hexdigest()
