"""Cookie with the secret of a session."""

from flask import Response, request

from app.web.services import services

# The prefix makes browsers refuse the cookie unless it is Secure, of this host only, and of all paths.
SECURE_NAME = "__Host-te_console"
INSECURE_NAME = "te_console"
MAX_SECRET = 200  # characters


def is_secure() -> bool:
    """Return whether cookies are sent over TLS only."""
    return services().settings.console_cookies == "secure"


def name() -> str:
    return SECURE_NAME if is_secure() else INSECURE_NAME


def secret() -> str:
    """Return the secret that the current request presents; empty without one."""
    found = request.cookies.get(name(), "")
    return found if len(found) <= MAX_SECRET else ""


def keep(response: Response, value: str) -> None:
    """Send the secret of a new session."""
    seconds = round(services().settings.console_session_hours * 3600)
    response.set_cookie(name(), value, max_age=seconds, secure=is_secure(), httponly=True, samesite="Lax", path="/")


def forget(response: Response) -> None:
    response.delete_cookie(name(), secure=is_secure(), httponly=True, samesite="Lax", path="/")
