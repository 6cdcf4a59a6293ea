"""Notices: one line about an action that was done, shown once by the next page."""

import base64
import binascii
import json

from flask import Response, request

from app.console.access import session_cookie

COOKIE = "te_console_notice"
MAX_NOTICE = 500  # characters
_SECONDS = 60


def keep(response: Response, text: str) -> None:
    """Send a notice for the next page."""
    value = base64.urlsafe_b64encode(json.dumps(text[:MAX_NOTICE]).encode()).decode()
    response.set_cookie(
        COOKIE,
        value,
        max_age=_SECONDS,
        path="/console",
        secure=session_cookie.is_secure(),
        httponly=True,
        samesite="Strict",
    )


def current() -> str:
    """Return the notice for the current page; empty without one."""
    try:
        text = json.loads(base64.urlsafe_b64decode(request.cookies.get(COOKIE, "")))
    except (binascii.Error, ValueError):
        return ""
    return text[:MAX_NOTICE] if isinstance(text, str) else ""


def forget(response: Response) -> None:
    response.delete_cookie(COOKIE, path="/console", secure=session_cookie.is_secure(), httponly=True, samesite="Strict")
