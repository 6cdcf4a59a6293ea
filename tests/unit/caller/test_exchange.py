"""Retries of the client: when a call is tried again, and after which wait."""

import pytest
from task_executor_client.answer import Reply, retry_after
from task_executor_client.call import Call
from task_executor_client.drive import drive
from task_executor_client.exchange import Pause, Retries, Send, exchange, wait_before_next
from task_executor_client.failures import ConnectionFailedError

from tests.cases import each_case

READS = Call.of("jobs.get", "GET", "/jobs/{id}", path={"id": "job_1"})
KEYED = Call.of("jobs.create", "POST", "/jobs", body={}, takes_key=True)
CHANGES = Call.of("jobs.patch", "PATCH", "/jobs/{id}", path={"id": "job_1"}, body={})
LOST = ConnectionFailedError("the answer is lost")
UNSENT = ConnectionFailedError("refused", may_have_been_done=False)
RETRIES = Retries(timeout=10, first_wait=1, longest_wait=4, max_tries=5)


def answered(status: int, seconds: str | None = None) -> Reply:
    return Reply(status, {} if seconds is None else {"retry-after": seconds}, b"")


@each_case(
    ("call", "outcome", "again"),
    [
        (READS, LOST, True),
        (KEYED, LOST, True),
        (CHANGES, LOST, False),
        (CHANGES, UNSENT, True),
        (READS, answered(500), True),
        (KEYED, answered(502), True),
        (KEYED, answered(504, "1"), True),
        (CHANGES, answered(500), False),
        (CHANGES, answered(504, "1"), False),  # the change may have happened
        (CHANGES, answered(503, "1"), True),
        (CHANGES, answered(429, "1"), True),
        (CHANGES, answered(503), False),
        (KEYED, answered(409), False),
        (KEYED, answered(422), False),
        (READS, answered(404), False),
        (READS, answered(302), False),
        (READS, answered(200), False),
    ],
)
def test_only_safe_calls_are_tried_again(call: Call, outcome: Reply | ConnectionFailedError, again: bool) -> None:
    assert (wait_before_next(call, outcome, 1, RETRIES, 0.0) is not None) is again


def test_wait_is_random_up_to_a_bound_that_doubles() -> None:
    for tried, bound in ((1, 1), (2, 2), (3, 4), (9, 4)):
        waits = [wait_before_next(READS, LOST, tried, RETRIES, 0.0) or 0.0 for _ in range(200)]
        assert 0 <= min(waits) < bound * 0.2
        assert bound * 0.8 < max(waits) <= bound


def test_wait_is_at_least_the_retry_after_of_the_service() -> None:
    assert (wait_before_next(READS, answered(429, "7"), 1, RETRIES, 0.0) or 0.0) >= 7
    date = answered(503, "Thu, 01 Jan 1970 00:01:00 GMT")
    assert retry_after(date, 50.0) == 10
    assert retry_after(date, 90.0) == 0
    assert retry_after(answered(503, "soon"), 0.0) is None


class Steps:
    """Runs an exchange on a simulated clock, on which each try takes its timeout, but at most four seconds."""

    def __init__(self, outcome: Reply | ConnectionFailedError) -> None:
        self.now = 0.0
        self.tries = 0
        self._outcome = outcome

    def do(self, step: Send | Pause) -> Reply | ConnectionFailedError | None:
        if isinstance(step, Pause):
            self.now += step.seconds
            return None
        assert step.timeout <= 10 - self.now
        self.now += min(step.timeout, 4.0)
        self.tries += 1
        return self._outcome

    def run(self, retries: Retries) -> Reply:
        return drive(exchange(READS, retries, lambda: self.now, lambda: 0.0), self.do)


def test_deadline_bounds_all_tries() -> None:
    steps = Steps(LOST)
    with pytest.raises(ConnectionFailedError):
        steps.run(RETRIES)
    assert steps.now <= 10
    assert steps.tries in {2, 3}


@pytest.mark.parametrize(
    ("query", "headers", "held"),
    [
        ({"wait": "30s"}, {}, 30),
        ({"wait": "500ms"}, {}, 0.5),
        ({"wait": "1m"}, {}, 60),
        ({}, {"Prefer": "respond-async, WAIT = 20; x=1"}, 20),
        ({}, {"Prefer": 'wait="99999"'}, 60),
        ({}, {"Prefer": "respond-async"}, 0),
        ({"wait": "soon"}, {}, 0),
    ],
)
def test_try_timeout_is_extended_by_the_requested_wait(
    query: dict[str, str], headers: dict[str, str], held: float
) -> None:
    call = Call.of(
        "executions.result", "GET", "/executions/{id}/result", path={"id": "e"}, query=query, headers=headers
    )
    assert next(exchange(call, RETRIES, lambda: 0.0, lambda: 0.0)) == Send(RETRIES.timeout + held)
    short = Retries(timeout=10, try_timeout=3)
    assert next(exchange(call, short, lambda: 0.0, lambda: 0.0)) == Send(3 + held)
    bounded = Call.of("executions.result", "GET", "/e", query=query, headers=headers, timeout=2)
    assert next(exchange(bounded, short, lambda: 0.0, lambda: 0.0)) == Send(2)


def test_number_of_tries_is_bounded() -> None:
    steps = Steps(answered(500))
    assert steps.run(Retries(timeout=10, first_wait=0.001, max_tries=2)).status == 500
    assert steps.tries == 2


@pytest.mark.parametrize("value", ["", ".", "..", None, 7])
def test_path_parameter_cannot_lead_elsewhere(value: str) -> None:
    with pytest.raises(ValueError, match="job_id must be a non-empty name or id"):
        Call.of("jobs.get", "GET", "/jobs/{job_id}", path={"job_id": value})


def test_name_in_a_path_is_escaped() -> None:
    call = Call.of("b", "GET", "/breakers/{target}", path={"target": "http://a:1/ä?#"}, query={"limit": 1})
    assert call.target == "/breakers/http%3A%2F%2Fa%3A1%2F%C3%A4%3F%23?limit=1"
