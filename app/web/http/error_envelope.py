"""Error envelope: one form for all errors, without traceback or SQL."""

import logging
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, current_app, jsonify, request
from marshmallow import Schema, fields
from sqlalchemy.exc import DBAPIError
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound, RequestEntityTooLarge

from app.kernel.db.retries import is_rows_fault, sqlstate
from app.kernel.described_fields import answered, described
from app.kernel.errors import (
    Detail,
    InternalError,
    InvalidRequestError,
    PayloadTooLargeError,
    RateLimitedError,
    TaskExecutorError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedMediaTypeError,
)
from app.kernel.suggestions import did_you_mean
from app.web.http import event_stream
from app.web.http.body import MAX_DETAILS, drain
from app.web.http.request_log import current_request_id

log = logging.getLogger(__name__)
MAX_TEXT = 500

# Own messages: Werkzeug's may repeat input of the client.
_HTTP_ERRORS = {
    400: ("INVALID_REQUEST", "The request is malformed."),
    404: ("NOT_FOUND", "There is nothing at this path."),
    405: ("METHOD_NOT_ALLOWED", "This path does not support this method."),  # followed by the methods that it supports
    408: ("REQUEST_TIMEOUT", "The request did not arrive in time."),
    413: (PayloadTooLargeError.code, PayloadTooLargeError.summary()),
    414: ("URI_TOO_LONG", "The request line is too long."),
    415: (UnsupportedMediaTypeError.code, UnsupportedMediaTypeError.summary()),
    429: (RateLimitedError.code, RateLimitedError.summary()),
    431: ("HEADERS_TOO_LARGE", "The request headers are too large."),
}


class DetailSchema(Schema):
    pointer = fields.String(**described("JSON pointer into the body, or a parameter's name"))
    message = fields.String()


class ErrorBodySchema(Schema):
    code = fields.String(**answered(example="JOB_NOT_FOUND"))
    message = fields.String(required=True)
    request_id = fields.String(required=True)
    details = fields.List(fields.Nested(DetailSchema), required=True)
    retryable = fields.Boolean(**answered("true if the same request may succeed later"))


class ErrorSchema(Schema):
    error = fields.Nested(ErrorBodySchema, required=True)


def register(app: Flask) -> None:
    """Answer every error of the application with the envelope."""
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(Exception, _answered)


def envelope(
    code: str, message: str, request_id: str, *, details: list[Detail] | None = None, retryable: bool = False
) -> dict[str, Any]:
    """Return the envelope of an error; truncates long texts, which may repeat input."""
    shown = [
        Detail(pointer=detail["pointer"][:MAX_TEXT], message=detail["message"][:MAX_TEXT])
        for detail in (details or [])[:MAX_DETAILS]
    ]
    error = {
        "code": code,
        "message": message[: 2 * MAX_TEXT],
        "request_id": request_id,
        "details": shown,
        "retryable": retryable,
    }
    return {"error": error}


def http_error(status: int) -> tuple[str, str]:
    """Return the code and the message for a status that Werkzeug raised."""
    if status in _HTTP_ERRORS:
        return _HTTP_ERRORS[status]
    phrase = HTTPStatus(status).phrase
    return phrase.upper().replace(" ", "_"), f"{phrase}."


def answer(error: TaskExecutorError) -> Response:
    if error.retryable and event_stream.is_wanted():
        return event_stream.postponed(error.retry_after_seconds)
    body = envelope(error.code, error.message, current_request_id(), details=error.details, retryable=error.retryable)
    response = jsonify(body)
    response.status_code = error.status
    if isinstance(error, UnauthorizedError):
        response.headers["WWW-Authenticate"] = "Bearer"
    if error.retryable:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


def client_error(error: Exception) -> TaskExecutorError:
    """Return the error that a client gets for an exception other than Werkzeug's, and log faults of the service."""
    if isinstance(error, DBAPIError):
        error = _database(error)
    if not isinstance(error, TaskExecutorError):
        log.error("request %s failed; answering 500", current_request_id(), exc_info=error)
        return InternalError(InternalError.summary())
    if error.status >= 500:
        log.warning("request %s: %s; answering %d", current_request_id(), error.explained, error.status)
    return error


def _answered(error: Exception) -> Response:
    return answer(client_error(error))


def _http(error: HTTPException) -> Response | HTTPException:
    status = error.code or 500
    if status < 400:
        return error
    if status >= 500:
        return _answered(error)
    if status == 413:
        drain(request)
    code, message = http_error(status)
    response = jsonify(envelope(code, message + _remedy(error), current_request_id()))
    response.status_code = status
    for name, value in error.get_headers():
        if name.lower() not in {"content-type", "content-length"}:
            response.headers[name] = value
    return response


def _remedy(error: HTTPException) -> str:
    """Return the sentence that follows the message: the allowed methods, or the nearest path."""
    if isinstance(error, MethodNotAllowed):
        methods = sorted(set(error.valid_methods or ()) - {"HEAD", "OPTIONS"})
        return f" It supports {', '.join(methods)}." if methods else ""
    if isinstance(error, RequestEntityTooLarge):
        return f" At most {request.max_content_length} bytes are accepted (TE_MAX_BODY_BYTES)."
    if not isinstance(error, NotFound):
        return ""
    known = {"/" + rule.rule.split("/", 2)[1] for rule in current_app.url_map.iter_rules()}
    first = "/" + request.path.split("/", 2)[1]
    return f"{'' if first in known else did_you_mean(first, sorted(known))} GET /docs lists all paths."


def _database(error: DBAPIError) -> Exception:
    # SQLSTATE classes 22 (data exception) and 54 (program limit exceeded): the database cannot store a value of the
    # request. The checks of the body should have refused the value, hence the warning.
    if (sqlstate(error) or "").startswith(("22", "54")):
        log.warning(
            "request %s: the database refused a value: %s; answering 400", current_request_id(), sqlstate(error)
        )
        return InvalidRequestError("The request contains a value that cannot be stored.")
    return error if is_rows_fault(error) else UnavailableError("The database cannot be reached; retry later.")
