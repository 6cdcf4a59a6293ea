"""Guard of all routes of the console: session, origin and token of changes, scope, and database connections."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from flask import Blueprint, Response, g, redirect, request

from app.console.access import csrf, session_cookie
from app.console.access.permission import Permissions
from app.kernel.access.key_ring import Key
from app.kernel.errors import UnavailableError
from app.web.http import event_stream
from app.web.http.rate_limits import Allowance, refuse_excess
from app.web.http.request_log import note_ids
from app.web.services import services

SIGN_IN = "/console/sign-in"
# The pages of a process share this number of its connections: an open dashboard must not delay `POST /jobs`.
MAX_CONNECTIONS = 4
PATIENCE_SECONDS = 2.0

connections = threading.BoundedSemaphore(MAX_CONNECTIONS)


def register(
    blueprint: Blueprint, permissions: Permissions, *, public: frozenset[str], by_itself: frozenset[str]
) -> None:
    """Guard each request before its view runs; `public` are the routes without a session.

    A browser requests the routes of `by_itself`, and regions, without a click.
    """

    @blueprint.before_request
    def guard() -> Response | None:
        endpoint = (request.endpoint or "").partition(".")[2]
        if request.method == "POST":
            csrf.check_origin()
        if endpoint in public:
            return None
        key = key_of_session()
        if key is None:
            return _to_sign_in()
        g.api_key = key
        note_ids(key_id=key.key_id)
        if request.method == "POST":
            csrf.check_token()
        region = f"{endpoint}?region={request.args.get('region')}"
        _count(key, is_by_itself=endpoint in by_itself or (request.method == "GET" and permissions.has(region)))
        permissions.check(endpoint)
        return None

    @blueprint.teardown_request
    def give_back(_error: BaseException | None) -> None:
        if g.pop("has_console_connection", False):
            connections.release()


def key_of_session() -> Key | None:
    """Return the key of the session; None without a session.

    Counts a cookie of no session as a bad key of its address. After too many of them a cookie of no session costs no
    connection and no look-up; a session is accepted from any address, since proxies share theirs.
    """
    secret, sessions = session_cookie.secret(), services().sessions
    is_known = not secret or sessions.is_known(secret)
    if not is_known and is_flooded() and not sessions.exists(secret):
        count_bad_key()
        return None
    _take_connection()
    key = sessions.verify(secret) if secret else None
    if key is None and not is_known:
        count_bad_key()
    return key


def is_flooded() -> bool:
    """Return whether the address of the current request has used up its bad keys."""
    limit = services().bad_key_limit
    return limit is not None and limit.is_used_up(request.remote_addr or "")


def count_bad_key() -> Allowance | None:
    """Count a cookie or a link of no session as a bad key of the address of the current request."""
    limit = services().bad_key_limit
    return None if limit is None else limit.count(request.remote_addr or "")


def _count(key: Key, *, is_by_itself: bool) -> None:
    """Count a request of a key. Reads that a browser begins by itself have a limit of their own."""
    limit = services().key_limit
    refuse_excess(None if limit is None else limit.count(f"{key.key_id} console" if is_by_itself else key.key_id))


@contextmanager
def connection() -> Iterator[None]:
    """Hold one of the connections, for a read outside of a request; raises UnavailableError if none is free."""
    _acquire()
    try:
        yield
    finally:
        connections.release()


def _take_connection() -> None:
    _acquire()
    g.has_console_connection = True


def _acquire() -> None:
    if not connections.acquire(timeout=PATIENCE_SECONDS):
        raise UnavailableError("The console is busy: other pages are still being read. Try again in a moment.")


def _to_sign_in() -> Response:
    """Return the way to the sign-in page, and from there back to a page that was read."""
    if event_stream.is_wanted():
        return Response(status=204)  # after which an EventSource does not connect again
    is_fragment = "HX-Request" in request.headers
    shown = request.headers.get("HX-Current-URL", "") if is_fragment else request.full_path.rstrip("?")
    path = own_path(shown) if request.method == "GET" else "/console"
    target = f"{SIGN_IN}?next={quote(path, safe='/')}"
    if is_fragment:
        return Response(status=204, headers={"HX-Redirect": target})
    response: Response = redirect(target, 303)  # type: ignore[assignment] # Flask's own response class
    return response


def own_path(address: str) -> str:
    """Return the path and query of an address in the console; `/console` for any other address."""
    is_absolute = "://" in address.partition("?")[0]  # a value of the query may be an address itself
    path = "/" + address.split("://", 1)[-1].partition("/")[2] if is_absolute else address
    is_own = path == "/console" or path.startswith(("/console/", "/console?"))
    is_plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if is_own and is_plain else "/console"
