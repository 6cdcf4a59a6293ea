"""Request of the API with the values of a page, as a command of `curl`."""

from collections.abc import Sequence
from datetime import timedelta
from urllib.parse import quote
from urllib.parse import urlencode as url_query

from flask import Flask, current_app, request
from marshmallow import Schema

from app.console.http.page_rendering import now
from app.console.views.curl_text import curl_of_read
from app.kernel.formats import duration_ms, rfc3339
from app.web.openapi.resource import Resource

EXTENSION = "task_executor_console_queries"
_SINCE, _BEGINNINGS = "since", ("created_after", "failed_after")
_LAST, _WINDOW = "last", "window"
_LONGEST_MS = timedelta(days=3660) / timedelta(milliseconds=1)
# Fields of an address that choose a part of the same answer.
_OF_PAGES = frozenset(
    {
        *("after", "columns", "cursor", "examine", "inputs", "new", "newest", "node", "old", "region", "sort", "until"),
        "window",
    }
)


def register(app: Flask, resources: Sequence[Resource]) -> None:
    """Keep the queries of the API's operations that read."""
    app.extensions[EXTENSION] = {
        f"GET {operation.path}": _names(operation.query)
        for resource in resources
        for operation, _ in resource.operations.values()
        if operation.method == "GET"
    }


def curl_of(operation: str) -> str:
    """Return the command for the current address; empty if the operation lacks a field of the address."""
    names = current_app.extensions[EXTENSION].get(operation)
    path = operation.partition(" ")[2]
    for name, value in (request.view_args or {}).items():
        path = path.replace(f"<{name}>", quote(str(value), safe=""))
    given = {name: value for name, value in request.args.items() if value.strip()}
    if names is None or "<" in path:
        return ""
    beginning = next((name for name in _BEGINNINGS if name in names), None)
    length = duration_ms(given.get(_SINCE))
    if beginning is not None and _SINCE not in names and length is not None and length < _LONGEST_MS:
        del given[_SINCE]
        given[beginning] = rfc3339(now() - timedelta(milliseconds=length), "seconds")
    if _LAST in given and _LAST not in names and _WINDOW in names:
        given[_WINDOW] = given.pop(_LAST)
    if given.keys() - names - _OF_PAGES:
        return ""
    query = url_query({name: value for name, value in given.items() if name in names - {"cursor"}})
    return curl_of_read(request.host_url.rstrip("/") + path + (f"?{query}" if query else ""))


def _names(query: type[Schema] | None) -> frozenset[str]:
    if query is None:
        return frozenset()
    return frozenset(field.data_key or name for name, field in query().fields.items())
