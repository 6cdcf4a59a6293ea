"""Sign-in by an API key or by a one-time link, and sign-out."""

from urllib.parse import quote

from flask import Blueprint, Response, redirect, request

from app.console.access import guard, session_cookie
from app.console.access.guard import own_path
from app.console.access.permission import Permissions
from app.console.http.console_page import frame
from app.console.http.page_rendering import html, render
from app.kernel.errors import TaskExecutorError, UnauthorizedError
from app.web.http.authentication import verified
from app.web.http.rate_limits import refuse_excess
from app.web.http.request_log import current_request_id, note_ids
from app.web.services import services

PUBLIC = frozenset({"sign_in", "sign_in_by_key", "sign_in_by_link"})
_NO_COOKIE = (
    "Your browser did not keep the cookie of the session. It keeps it over TLS only: open the console by https://, or "
    "set TE_CONSOLE_COOKIES=insecure for a network that you trust."
)


def register(blueprint: Blueprint, permissions: Permissions) -> None:
    """Add the pages and forms."""
    blueprint.add_url_rule("/sign-in", "sign_in", _show)
    blueprint.add_url_rule("/sign-in", "sign_in_by_key", _by_key, methods=["POST"])
    blueprint.add_url_rule("/sign-in/link", "sign_in_by_link", _by_link, methods=["POST"])
    permissions.declare("sign_out", None)
    blueprint.add_url_rule("/sign-out", "sign_out", _end, methods=["POST"])


def _show() -> Response:
    """Show the form; after a sign-in without effect, say that the browser kept no cookie."""
    lacks_cookie = "signed-in" in request.args and not session_cookie.secret()
    if "signed-in" in request.args and not lacks_cookie:
        return _to(own_path(request.args.get("next", "")))
    return _page(_NO_COOKIE if lacks_cookie else "")


def _by_key() -> Response:
    presented = request.form.get("key", "").strip()
    try:
        key = verified(presented)
    except TaskExecutorError as error:
        services().refusals.note(error, presented, request.remote_addr or "-", current_request_id())
        message = "This key is not valid: unknown, expired or revoked." if presented else "Enter an API key."
        return _page(message if isinstance(error, UnauthorizedError) else error.message, error.status)
    note_ids(key_id=key.key_id)
    return _begun(services().sessions.begin(key.key_id))


def _by_link() -> Response:
    """Use a link up; a link that would replace a session is used after its owner has agreed."""
    link = request.form.get("link", "")[: session_cookie.MAX_SECRET]
    if "replace" not in request.form and (owner := guard.key_of_session()) is not None:
        return _page("", owner=owner.name, link=link)
    if guard.is_flooded():
        refuse_excess(guard.count_bad_key())
    secret = services().sessions.begin_by_link(link)
    if secret is None:
        guard.count_bad_key()
        return _page("This link has been used, or is older than a minute. Make a new one, or enter an API key.", 401)
    return _begun(secret)


def _begun(secret: str) -> Response:
    """Keep the secret of a new session, and end the session that it replaces."""
    if session_cookie.secret():
        services().sessions.end(session_cookie.secret())
    shown = quote(own_path(request.form.get("next", "")), safe="/")  # else its filters would become fields of this page
    answer = _to(f"/console/sign-in?signed-in&next={shown}")
    session_cookie.keep(answer, secret)
    return answer


def _end() -> Response:
    services().sessions.end(session_cookie.secret())
    answer = _to("/console/sign-in")
    session_cookie.forget(answer)
    return answer


def _page(message: str, status: int = 200, *, owner: str = "", link: str = "") -> Response:
    """Return the page; with an `owner` of a session it asks whether to use a link instead."""
    values = {"title": "Sign in", "message": message, "next": own_path(request.values.get("next", ""))}
    return html(render("page/sign_in.html", **frame(None), **values, owner=owner, link=link), status)


def _to(path: str) -> Response:
    answer: Response = redirect(path, 303)  # type: ignore[assignment]
    return answer
