"""No request waits for the database for ever: after a while it is answered 504."""

from flask import Flask

from app.db import deadline


def register(app: Flask, seconds: float) -> None:
    """Give each request its deadline."""
    app.before_request(lambda: deadline.begin(seconds))
    app.teardown_request(lambda _error: deadline.end())
