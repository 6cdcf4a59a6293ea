"""Database URLs: parse the text of a setting into a SQLAlchemy URL."""

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

_DRIVERS = {
    "postgresql": "postgresql+psycopg2",
    "postgres": "postgresql+psycopg2",
    "postgresql+psycopg2": "postgresql+psycopg2",
    "cockroachdb": "cockroachdb+psycopg2",
    "cockroachdb+psycopg2": "cockroachdb+psycopg2",
}

_FORM = (
    "write postgresql://USER:PASSWORD@HOST:PORT/NAME or cockroachdb://…, "
    "with each of @ : / ? # % in the password percent-encoded (@ is %40)"
)


def database_url(text: str) -> URL:
    """Parse a database URL and pin its driver.

    The driver of a bare `postgresql://` depends on the SQLAlchemy release, so it is normalised to psycopg2.
    Raises ValueError, without repeating the URL (it holds a password), for anything else.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ValueError(_FORM) from None
    if "@" in (url.host or ""):  # left over from an @ in the password that is not encoded
        raise ValueError(_FORM)
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise ValueError(f"database {url.drivername!r} is not supported; use postgresql:// or cockroachdb://")
    return url.set(drivername=driver)
