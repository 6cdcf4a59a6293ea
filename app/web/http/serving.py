"""Serving of an operation: parse its request, call its view, and answer with what the view returns.

flask-smorest describes an operation by a decorator for each of these steps, and each would also wrap the view.
"""

from functools import cache, wraps
from typing import Any

from flask import Response
from marshmallow import Schema

from app.kernel.function_types import AnyFunction
from app.web.http.body import loaded, read_json
from app.web.http.unproxied import current_application, current_request


def served(
    view: AnyFunction,
    *,
    body: type[Schema] | None,
    query: type[Schema] | None,
    returns: type[Schema] | None,
    status: int,
) -> AnyFunction:
    """Wrap a view, which takes the parsed body and query and the parts of the path by name.

    The view returns an object for `returns`, alone, with a status, or with a status and headers; or a response.
    """

    @wraps(view)
    def serve(**path: Any) -> Any:
        parsed = [] if body is None else [loaded(_built(body), read_json(current_request()), in_body=True)]
        if query is not None:
            parsed.append(loaded(_built(query), current_request().args.to_dict(), in_body=False))
        return _answer(view(*parsed, **path), returns, status)

    return serve


@cache
def _built(schema: type[Schema]) -> Schema:
    """Build a schema at its first use: all schemas together take 40 ms, and most processes use few."""
    return schema()


def _answer(result: Any, returns: type[Schema] | None, status: int) -> Any:
    content, own_status, headers = (*result, {})[:3] if type(result) is tuple else (result, None, {})
    if not isinstance(content, Response):
        text = current_application().json.dumps(content if returns is None else _built(returns).dump(content))
        return Response(f"{text}\n", own_status or status, headers, mimetype="application/json")
    if own_status is not None:
        content.status_code = own_status
    content.headers.extend(headers)
    return content
