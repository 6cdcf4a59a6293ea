"""Pagination with cursors that are opaque, signed, and bound to one list and its filters."""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache, partial
from typing import Any, TypeVar

from flask import request
from itsdangerous import BadData, URLSafeSerializer
from marshmallow import Schema, fields, validate

from app.kernel.db.paging import Page, PageRequest, Position
from app.kernel.described_fields import described
from app.kernel.formats import EPOCH, MICROSECOND
from app.kernel.unreadable import readable
from app.web.http.body import invalid
from app.web.http.request_fields import Body, Count
from app.web.services import services

DEFAULT_LIMIT = 50
MAX_LIMIT = 200

T = TypeVar("T")
Shape = Callable[[T], Mapping[str, Any]]
"""Returns the fields of an item, as the API shows it."""


class PageQuery(Body):
    limit = Count(load_default=DEFAULT_LIMIT, validate=validate.Range(1, MAX_LIMIT))
    cursor = fields.String(**described("`cursor` of the page before"))


class _Items(fields.List[Any]):
    """Items of a page, except those that cannot be written."""

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> list[Any]:
        write = partial(self.inner._serialize, attr=attr, obj=obj, **kwargs)  # noqa: SLF001 - as List does
        return readable(write, value, _name_of)


def _name_of(item: Any) -> str:
    """Name an item by its first field, which is its key."""
    name = next(iter(item if isinstance(item, Mapping) else (each.name for each in dataclasses.fields(item))))
    return f"{name} {item[name] if isinstance(item, Mapping) else getattr(item, name)}"


@cache
def page_schema(item: type[Schema]) -> type[Schema]:
    """Return the schema of a page of items; cached, since the name of a schema must be unique."""
    cursor = fields.String(required=True, allow_none=True, **described("opaque; `null` on the last page"))
    name = item.__name__.removesuffix("Schema") + "Page"
    return Schema.from_dict({"items": _Items(fields.Nested(item), required=True), "cursor": cursor}, name=name)


def page_request(query: dict[str, Any]) -> PageRequest:
    """Remove `limit` and `cursor` from a parsed query; the cursor is bound to the remaining filters."""
    limit, cursor = query.pop("limit"), query.pop("cursor", None)
    return PageRequest(limit, None if cursor is None else _decode(cursor, _list_of(query)))


def page_answer(page: Page[T], filters: Mapping[str, Any], shape: Shape[T] | None = None) -> dict[str, Any]:
    """Return the answer with a page; `filters` is the query after `page_request`, `shape` returns fields of an item."""
    cursor = None if page.next is None else _encode(page.next, _list_of(filters))
    return {"items": page.items if shape is None else readable(shape, page.items, _name_of), "cursor": cursor}


def _list_of(filters: Mapping[str, Any]) -> str:
    return f"{request.path}?{sorted((name, str(value)) for name, value in filters.items())}"


def _encode(position: Position, list_: str) -> str:
    return _serializer(list_).dumps([(position.at - EPOCH) // MICROSECOND, position.key])


def _decode(cursor: str, list_: str) -> Position:
    serializer = _serializer(list_)
    try:
        microseconds, key = value = serializer.loads(cursor)
        # Refuse a second spelling of the same signature.
        if serializer.dumps(value) == cursor:
            return Position(EPOCH + timedelta(microseconds=microseconds), key)
    except (BadData, TypeError, ValueError, OverflowError):
        pass
    raise invalid([{"pointer": "cursor", "message": "Must be a cursor of this list with these filters."}])


def _serializer(list_: str) -> URLSafeSerializer:
    # Signed because the position in a cursor reaches the database unchecked.
    return URLSafeSerializer(services().cursor_key.get(), salt=list_, signer_kwargs={"digest_method": hashlib.sha256})
