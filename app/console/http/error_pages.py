"""Pages of errors: the problem and its remedy."""

from flask import Blueprint, Response, g, redirect, request
from werkzeug.exceptions import HTTPException

from app.console.access.permission import Permissions
from app.console.http.console_page import frame
from app.console.http.page_rendering import html, render
from app.kernel.errors import NotFoundError
from app.web.catalog import similar_endpoints
from app.web.http import event_stream
from app.web.http.error_envelope import client_error, http_error
from app.web.http.request_log import current_request_id

POSTPONED_SECONDS = 10.0
RETRY_SECONDS = 5  # at least, also after an error that asks for less
_TITLES = {
    400: "The form is not valid",
    403: "Not allowed",
    404: "Not found",
    409: "It has changed",
    410: "No longer stored",
    412: "Somebody was faster",
    422: "The form is not valid",
    429: "Too many requests",
    503: "Not available now",
    504: "It takes too long",
}
_OF_ADDRESS = "The address is not valid"


def register(blueprint: Blueprint, permissions: Permissions) -> None:
    """Answer errors with a page, and unknown addresses with 404."""
    blueprint.register_error_handler(HTTPException, _http)
    blueprint.register_error_handler(Exception, _failed)
    permissions.declare("nowhere", None)
    blueprint.add_url_rule("/<path:rest>", "nowhere", _nowhere)
    permissions.declare("start", None)
    blueprint.add_url_rule("/", "start", _start)


def _nowhere(rest: str) -> Response:  # noqa: ARG001 - part of the route
    raise NotFoundError("There is no page at this address.")


def _start() -> Response:
    answer: Response = redirect("/console", 308)  # type: ignore[assignment]
    return answer


def _http(error: HTTPException) -> Response | HTTPException:
    status = error.code or 500
    if status < 400:
        return error
    code, message = http_error(status)
    return _page(status, code, message)


def _failed(error: Exception) -> Response:
    known = similar_endpoints.explained(client_error(error))
    if event_stream.is_wanted():
        return event_stream.postponed(max(POSTPONED_SECONDS, known.retry_after_seconds))
    faults = [f"{each['pointer']}: {each['message']}" for each in known.details if each["pointer"]]
    retry_after = max(RETRY_SECONDS, known.retry_after_seconds) if known.retryable else None
    return _page(known.status, known.code, known.message, faults, retry_after)


def _page(
    status: int, code: str, message: str, faults: list[str] | None = None, retry_after: int | None = None
) -> Response:
    """Return the page of an error; with `retry_after` seconds, a page that was read asks again."""
    title = _TITLES.get(status, "Something went wrong")
    values = {
        "title": _OF_ADDRESS if status == 400 and request.method == "GET" else title,
        "status": status,
        "code": code,
        "message": message,
        "faults": [fault for fault in faults or [] if fault not in message],
        "retry_after": retry_after if request.method == "GET" else None,
        "request_id": current_request_id(),
    }
    if status == 503:
        g.pop("api_key", None)  # without a database the session is unknown
    response = html(render("page/error.html", **frame(None), **values), status)
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    return response
