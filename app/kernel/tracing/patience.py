"""Patience with a collector: of what it answers little is read, and of what fails little is said."""

import logging
import time
from typing import Any

import requests

MOST_ANSWER_BYTES = 65_536
MOST_CHARACTERS = 300  # of a line
SAID_AGAIN_SECONDS = 60.0


class BriefSession(requests.Session):
    """A session that reads a bounded part of each answer, in a bounded time: nobody looks at what it says."""

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request, and give the connection back once its answer was read, or it up where that takes too long."""
        seconds = kwargs.get("timeout")
        until = time.monotonic() + (seconds if isinstance(seconds, int | float) else 0.0)
        response = super().send(request, **kwargs | {"stream": True})
        left = MOST_ANSWER_BYTES
        try:
            while left > 0 and time.monotonic() < until:
                piece = response.raw.read1(left)
                if not piece:
                    break
                left -= len(piece)
        finally:
            response.close()
        return response


class SeldomSaid(logging.Filter):
    """Lets each kind of line through once a minute, and not more of it than there is room for."""

    def __init__(self) -> None:
        super().__init__()
        self._said_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written."""
        kind, now = str(record.msg), time.monotonic()
        if now - self._said_at.get(kind, -SAID_AGAIN_SECONDS) < SAID_AGAIN_SECONDS:
            return False
        self._said_at[kind] = now
        record.msg, record.args = record.getMessage()[:MOST_CHARACTERS], None
        return True
