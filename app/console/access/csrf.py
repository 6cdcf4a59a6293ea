"""Protection against requests that another site makes a browser send.

SameSite=Lax keeps the cookie from most of them. A change also needs the origin of this host and a token of the session.
"""

import hashlib
import hmac
from urllib.parse import urlsplit

from flask import request

from app.console.access import session_cookie
from app.kernel.errors import ForbiddenError

FIELD = "csrf"


def token() -> str:
    """Return the token for forms of the current session."""
    return hmac.new(session_cookie.secret().encode(), b"console form", hashlib.sha256).hexdigest()


def check_origin() -> None:
    """Raise ForbiddenError unless a page of this host has sent the current request."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        is_own = site == "same-origin"
    else:  # plain HTTP apart from localhost, and old browsers
        is_own = urlsplit(request.headers.get("Origin", "")).netloc == request.host
    if not is_own:
        raise ForbiddenError("This request did not come from a page of the console. Reload the page, and try again.")


def check_token() -> None:
    """Raise ForbiddenError unless the form has the token of the session."""
    if not hmac.compare_digest(request.form.get(FIELD, "").encode(), token().encode()):
        raise ForbiddenError("The form is from an earlier session. Reload the page, and try again.")
