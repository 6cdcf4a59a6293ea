"""Request bodies, parsed strictly: ambiguous JSON and values that the database cannot store are refused with 400."""

import math
import time
from collections.abc import Collection
from functools import partial
from typing import Any

import marshmallow
from flask import Flask, Request
from werkzeug.exceptions import RequestEntityTooLarge, UnsupportedMediaType

from app.kernel.errors import Detail, InvalidRequestError
from app.kernel.formats import UNSTORABLE, is_deeper, is_unstorable, marshmallow_faults, pointer
from app.web.http.strict_json import decode, place
from app.web.http.unproxied import current_request
from schema.job_bounds import MAX_JSON_DEPTH

MAX_DETAILS = 20
DRAIN_BYTES = 33_554_432
DRAIN_SECONDS = 5.0
_CHUNK = 65_536
MAX_MESSAGE = 200


def register(app: Flask, *, repeating: Collection[str] = ()) -> None:
    """Refuse paths and query strings that cannot be stored or compared.

    The blueprints in `repeating` read query fields that are given more than once, such as ticked boxes of a form.
    """
    app.before_request(partial(_check_url, frozenset(repeating)))


def invalid(details: list[Detail]) -> InvalidRequestError:
    return InvalidRequestError.of_faults(*details)


def parse_json(text: str, *, has_places: bool = True) -> Any:
    """Parse JSON; raises InvalidRequestError, also for extensions that only Python's parser accepts.

    `has_places` is false for a text that its author has not seen: faults then have no line and column.
    """
    try:
        value = decode(text, has_places=has_places)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise InvalidRequestError(f"The body is not valid JSON: {error}.") from None
    if text.count("[") + text.count("{") > MAX_JSON_DEPTH and is_deeper(value, MAX_JSON_DEPTH):
        raise _too_deep()
    if is_unstorable(value, text):
        raise _unstorable("The body")
    return value


def drain(req: Request) -> None:
    """Discard the rest of a refused body, since many clients read the answer only after sending everything.

    Bounded in size and time, since a body may be endless; the connection is then closed.
    """
    stream, until = req.environ["wsgi.input"], time.monotonic() + DRAIN_SECONDS
    try:
        for _ in range(DRAIN_BYTES // _CHUNK):
            if not stream.read(_CHUNK) or time.monotonic() > until:
                return
    except (OSError, ValueError):
        return


def _unstorable(where: str) -> InvalidRequestError:
    return InvalidRequestError(f"{where} must not contain a NUL character or half of a surrogate pair.")


def details_of(messages: Any, *, in_body: bool) -> list[Detail]:
    """Flatten marshmallow's tree of messages into details."""
    details: list[Detail] = []
    for path, message in marshmallow_faults(messages):
        where = pointer(path) if in_body else ".".join(path[:1])
        details.append({"pointer": where[:MAX_MESSAGE], "message": message[:MAX_MESSAGE]})
        if len(details) == MAX_DETAILS:
            break
    return details


def read_json(req: Request) -> Any:
    """Read the body of a request; raises InvalidRequestError, 413 or 415."""
    if not req.is_json:
        raise UnsupportedMediaType
    data = req.get_data(cache=True)
    if req.content_length is None and len(data) >= (req.max_content_length or math.inf):
        # Werkzeug silently truncates a chunked body at the limit.
        raise RequestEntityTooLarge
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        raise InvalidRequestError(f"The body is not UTF-8: {place(before, len(before))}.") from None
    return parse_json(text)


def loaded(schema: marshmallow.Schema, given: Any, *, in_body: bool) -> Any:
    """Load a body or a query; raises InvalidRequestError with a detail for each fault."""
    try:
        return schema.load(given, unknown=marshmallow.RAISE)
    except marshmallow.ValidationError as error:
        raise invalid(details_of(error.messages, in_body=in_body)) from None


def _check_url(repeating: Collection[str]) -> None:
    req = current_request()
    if UNSTORABLE.search(req.path):
        raise _unstorable("The path")
    for name, values in req.args.lists():
        if any(UNSTORABLE.search(text) for text in (name, *values)):
            raise _unstorable("The query")
        if len(values) > 1 and req.blueprint not in repeating:
            raise invalid([{"pointer": name[:MAX_MESSAGE], "message": "Given more than once."}])


def _too_deep() -> InvalidRequestError:
    return InvalidRequestError(f"The body is nested deeper than {MAX_JSON_DEPTH} levels.")
