"""Forecast of a wait in line from the deliveries of the last minutes."""

from datetime import timedelta

from app.console.http.page_rendering import now
from app.console.views.wait_words import wait_in_line
from app.features.rollups.delivery_history import Range, read_deliveries
from app.queue.reading.waiting_reasons import MAX_AHEAD, Explanation
from app.web.services import services

PAST = timedelta(minutes=5)
_STEP_S = 60


def forecast_of(why: Explanation, endpoint: str) -> str:
    """Return the forecast of an execution that waits behind others; empty without one, or while nothing was counted."""
    ahead = why.details.get("ahead", 0)
    if why.reason != "BEHIND_OTHERS" or ahead >= MAX_AHEAD:
        return ""
    wanted = Range.of(now() - PAST, now(), _STEP_S, now())
    points = [each for each in read_deliveries(services().database, wanted, endpoint=endpoint) if each.counts]
    seconds = sum(each.counted_seconds for each in points)
    attempts = sum(each.counts.attempts for each in points if each.counts)
    return wait_in_line(ahead, attempts, seconds, shards=services().shards) if seconds else ""
