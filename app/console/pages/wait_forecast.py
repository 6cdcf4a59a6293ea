"""Forecast of a wait in line from the deliveries of the last minutes."""

from datetime import timedelta

from app.console.http.page_rendering import now
from app.console.views.wait_words import wait_in_line
from app.features.rollups.delivery_history import OTHERS, Range, read_deliveries
from app.queue.executions.execution_records import Execution
from app.queue.reading.waiting_reasons import Explanation
from app.web.services import services

PAST = timedelta(minutes=5)
STALE = timedelta(seconds=90)  # a minute is counted within some 20 s of its end
_STEP_S = 60


def forecast_of(why: Explanation, execution: Execution) -> str:
    """Return the forecast of an execution that waits behind others; empty without one.

    The speed of an endpoint is no speed of a key: keys take turns. It is unknown while nobody counts deliveries.
    """
    if why.reason != "BEHIND_OTHERS" or not why.details["ahead_is_exact"] or execution.limit_key:
        return ""
    counted = _counted(execution.endpoint)
    if not counted:
        return ""
    seconds = _STEP_S * len(counted)
    return wait_in_line(why.details["ahead"], sum(counted), seconds, shards=services().shards)


def _counted(endpoint: str) -> list[int]:
    """Return the attempts of an endpoint in each counted minute; empty if they are old, or counted among others."""
    database, wanted = services().database, Range.of(now() - PAST, now(), _STEP_S, now())
    own = {
        each.at: each.counts.attempts for each in read_deliveries(database, wanted, endpoint=endpoint) if each.counts
    }
    if not own or max(own) + timedelta(seconds=_STEP_S) < now() - STALE:
        return []
    # In a minute without a row of its own, an endpoint that is not among the busiest may be part of the others.
    if not all(own.values()):
        others = read_deliveries(database, wanted, endpoint=OTHERS)
        if any(each.counts and each.counts.attempts and not own.get(each.at) for each in others):
            return []
    return list(own.values())
