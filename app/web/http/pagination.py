"""Cursors: opaque to clients, bound to the list they came from, and signed: only those that we made are accepted."""

import hashlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

from flask import Flask, current_app, request
from itsdangerous import BadData, URLSafeSerializer
from marshmallow import Schema, fields, validate

from app.kernel.access.signing_key import SigningKey
from app.kernel.db.paging import Page, PageRequest, Position
from app.kernel.formats import EPOCH, MICROSECOND
from app.web.http.body import invalid
from app.web.http.request_fields import Body, Count

EXTENSION = "task_executor_cursor_key"
DEFAULT_LIMIT = 50
MAX_LIMIT = 200

T = TypeVar("T")


class PageQuery(Body):
    """What every list takes."""

    limit = Count(load_default=DEFAULT_LIMIT, validate=validate.Range(1, MAX_LIMIT))
    cursor = fields.String(metadata={"description": "`cursor` of the page before"})


def register(app: Flask, key: Callable[[], SigningKey]) -> None:
    """Sign the cursors of an application with the key that `key` finds."""
    app.extensions[EXTENSION] = key


@cache
def page_schema(item: type[Schema]) -> type[Schema]:
    """Make the schema of a page of items; the same one for each list of them, since its name must be its own."""
    cursor = fields.String(required=True, allow_none=True, metadata={"description": "opaque; `null` on the last page"})
    name = item.__name__.removesuffix("Schema") + "Page"
    return Schema.from_dict({"items": fields.List(fields.Nested(item), required=True), "cursor": cursor}, name=name)


def page_request(query: dict[str, Any]) -> PageRequest:
    """Take `limit` and `cursor` out of a parsed query; what remains are the filters, which the cursor is bound to."""
    limit, cursor = query.pop("limit"), query.pop("cursor", None)
    return PageRequest(limit, None if cursor is None else _decode(cursor, _list_of(query)))


def page_answer(page: Page[T], shape: Callable[[T], Mapping[str, Any]], filters: Mapping[str, Any]) -> dict[str, Any]:
    """Shape a page; `filters` is what `page_request` left of the query."""
    cursor = None if page.next is None else _encode(page.next, _list_of(filters))
    return {"items": [shape(item) for item in page.items], "cursor": cursor}


def _list_of(filters: Mapping[str, Any]) -> str:
    return f"{request.path}?{sorted((name, str(value)) for name, value in filters.items())}"


def _encode(position: Position, list_: str) -> str:
    return _serializer(list_).dumps([(position.at - EPOCH) // MICROSECOND, position.key])


def _decode(cursor: str, list_: str) -> Position:
    serializer = _serializer(list_)
    try:
        microseconds, key = value = serializer.loads(cursor)
        # A second spelling of the same signature would be a changed cursor too.
        if serializer.dumps(value) == cursor:
            return Position(EPOCH + timedelta(microseconds=microseconds), key)
    except (BadData, TypeError, ValueError, OverflowError):
        pass
    raise invalid([{"pointer": "cursor", "message": "Not a cursor of this list with these filters."}])


def _serializer(list_: str) -> URLSafeSerializer:
    # A forged cursor would show nothing that the list itself does not, but its key would reach the database unchecked.
    key: bytes = current_app.extensions[EXTENSION]().get()
    return URLSafeSerializer(key, salt=list_, signer_kwargs={"digest_method": hashlib.sha256})
