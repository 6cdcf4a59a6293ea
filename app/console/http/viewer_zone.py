"""Time zone of the instants that a viewer reads: UTC, or the choice of the viewer, kept in a cookie."""

from datetime import datetime

from flask import Response, request

from app.console.access import session_cookie
from app.console.views import words
from app.schedule.zones import names, time_zone

COOKIE = "te_console_zone"
USUAL = "UTC"
_SECONDS = 365 * 86_400


def zone_name() -> str:
    """Return the name of the zone of the current request; a cookie with another text counts as none."""
    chosen = request.cookies.get(COOKIE, "")
    return chosen if chosen in names() else USUAL


def local(at: datetime) -> datetime:
    """Return an instant in the zone of the viewer."""
    return at.astimezone(time_zone(zone_name()))


def instant_words(at: datetime | None, now: datetime) -> str:
    """Write an instant in the zone of the viewer."""
    return words.instant(at, local(now))


def keep(response: Response, zone: str) -> None:
    """Send the zone that a viewer has chosen."""
    secure = session_cookie.is_secure()
    response.set_cookie(
        COOKIE, zone, max_age=_SECONDS, path="/console", secure=secure, httponly=True, samesite="Strict"
    )
