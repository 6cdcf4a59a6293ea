"""Words of waits, and the ways out of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from app.console.http.actions import ACTIONS
from app.console.pages import execution_page
from app.console.views.reason_words import reason_of, way_out_of
from app.queue.reading.waiting_reasons import Explanation
from schema.states import ExecutionStatus
from tests.cases import each_case

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)


def explanation(reason: str, *, until: float | None = None, **details: Any) -> Explanation:
    end = None if until is None else NOW + timedelta(seconds=until)
    return Explanation(ExecutionStatus.QUEUED, reason, "It waits.", NOW, end, details)


@each_case(
    ("why", "words"),
    [
        (explanation("WAITING_FOR_RUN_AT", until=41), "due, in 41 s"),
        (
            explanation("RETRYING_AFTER_ERROR", until=5, last_error={"type": "HTTP_ERROR"}),
            "retry after http error, in 5 s",
        ),
        (explanation("BREAKER_OPEN", until=-5, breaker="HALF_OPEN", target="x"), "breaker half open"),
        (
            explanation("CONCURRENCY_LIMITED", max_in_flight=20, ahead=40, ahead_is_exact=True),
            "limit of 20 in flight, behind 40",
        ),
        (explanation("BEHIND_OTHERS", ahead=1000, ahead_is_exact=False), "in line, behind 1,000+"),
        (explanation("BEHIND_OTHERS", ahead=0, ahead_is_exact=False), "in line"),
        (explanation("NEXT_IN_QUEUE", ahead=3), "next of its endpoint"),
        (explanation("SOMETHING_NEW"), "something new"),
    ],
)
def test_reason_is_short_and_says_until_when(why: Explanation, words: str) -> None:
    assert reason_of(why, NOW) == words


def test_way_out_names_an_operation_with_its_path() -> None:
    way = way_out_of(explanation("QUEUE_PAUSED", queue="bulk"), job_id="job_1", endpoint="mail")
    assert way is not None
    assert (way.operation, way.path) == ("POST /queues/<queue>/resume", {"queue": "bulk"})
    assert way_out_of(explanation("NEXT_IN_QUEUE"), job_id="job_1", endpoint="mail") is None
    assert execution_page.page.name == "execution"
    assert "POST /executions/<execution_id>/retry" in ACTIONS
