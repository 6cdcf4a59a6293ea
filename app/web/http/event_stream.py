"""Temporary refusals of event streams: an answer after which an EventSource connects again.

An EventSource stops for good after any status but 200. After the end of an answer with status 200 it connects again,
with its last event id, once the time of `retry` has passed.
"""

import random

from flask import Response, request

EVENT_STREAM = "text/event-stream"
_SPREAD_SECONDS = 2.0  # so that clients refused together do not return together


def is_wanted() -> bool:
    """Return whether the client of the current request wants a stream."""
    wanted = request.accept_mimetypes.best_match(["application/json", EVENT_STREAM])
    return request.method == "GET" and wanted == EVENT_STREAM


def come_again(seconds: float) -> bytes:
    """Write a stream that has no event, and delays the next connection."""
    return f"retry: {round((seconds + random.uniform(0, _SPREAD_SECONDS)) * 1000)}\n\n".encode()


def postponed(seconds: float) -> Response:
    """Return the answer in place of a temporary refusal."""
    return Response(come_again(seconds), content_type=EVENT_STREAM, headers={"Cache-Control": "no-store"})
