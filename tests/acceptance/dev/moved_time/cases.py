"""Tests as users write them: the test of the plugin runs them in a pytest of their own."""

import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from urllib.request import Request, urlopen

import psycopg2
import pytest
from task_executor_client.testing import Answer, StackError

URL = "/shop"


def status_of(te, job):
    (execution,) = te.executions.list(job_id=job["job_id"])
    return execution["status"]


def test_ticks_of_three_days_arrive_in_order(te, te_clock, deliveries):
    te.send(deliveries.url(URL), {"n": 1}, cron="0 * * * *", timezone="UTC")
    te_clock.advance("72h")
    instants = [datetime.fromisoformat(each.headers["x-task-executor-scheduled-at"]) for each in deliveries]
    assert len(instants) == 72
    assert instants == [instants[0] + timedelta(hours=number) for number in range(72)]


def test_delivery_that_a_worker_sends_after_the_test_counts_in_no_other(te, te_stack, deliveries):
    te.send(deliveries.url("/late"))
    late = deliveries.wait()[0]
    te_stack.clear()
    answer = urlopen(Request(deliveries.url("/late"), b"", headers=late.headers))  # as the worker would send it
    assert (answer.status, len(deliveries)) == (200, 0)
    te.send(deliveries.url("/late"))
    assert deliveries.wait()[0].execution_id != late.execution_id


def test_clock_is_the_machines_again_and_nothing_is_left(te, te_clock, deliveries):
    assert abs(te_clock.now() - datetime.now(UTC)) < timedelta(minutes=1)
    assert list(te.jobs.list()) == []
    te_clock.advance("40d")
    assert len(deliveries) == 0
    te.send(deliveries.url(URL))
    assert deliveries.wait()[0].attempt == 1, "the worker is still alive"


def test_retries_breakers_and_rates_follow_the_clock(te, te_clock, deliveries):
    deliveries.answer("/retried", 500, 500)
    te.send(deliveries.url("/retried"), retry_policy={"max_attempts": 3})
    assert deliveries.wait()[0].attempt == 1
    te_clock.advance("1h")
    assert [each.attempt for each in deliveries] == [1, 2, 3]

    answers = [Answer(503, headers={"Retry-After": "7200"}), Answer(204)]
    deliveries.handle("/asked", lambda _delivery: answers.pop(0))
    te.send(deliveries.url("/asked"), retry_policy={"max_attempts": 2})
    te_clock.advance("110m")
    assert len(answers) == 1
    te_clock.advance(timedelta(minutes=20))
    assert answers == []

    te.endpoints.create(
        name="rated", type="HTTP", spec={"url": deliveries.url("/rated")}, limits={"rate": {"count": 1, "per": "1h"}}
    )
    for number in range(3):
        te.jobs.create(endpoint="rated", trigger="IMMEDIATE", idempotency_key=f"{number}", input={})
    deliveries.wait(path="/rated")
    te_clock.advance("65m")
    assert len(deliveries.wait(path="/rated")) == 2
    te_clock.advance("1h")
    assert len(deliveries.wait(path="/rated")) == 3


def test_worker_keeps_results_while_nothing_fails(te, deliveries):
    for _ in range(12):
        te.send(deliveries.url(URL))
    deliveries.wait(12)


def test_results_of_the_test_before_count_in_no_breaker(te, te_stack, deliveries):
    """With twelve earlier successes, ten failures would not open the breaker."""
    deliveries.answer(URL, *[500] * 10)
    for _ in range(10):
        te.send(deliveries.url(URL))
    until = time.monotonic() + 20
    while not list(te.breakers.list(state="open")) and time.monotonic() < until:
        time.sleep(0.05)
    assert len(list(te.breakers.list(state="open"))) == 1
    with psycopg2.connect(te_stack.database_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT sum(ok), sum(failed) FROM breaker_counts")
        assert cursor.fetchone() == (0, 10)


def test_execution_behind_a_pause_expires(te, te_clock, deliveries):
    policy = {"max_attempts": 1, "max_age_ms": 3_600_000}
    te.endpoints.create(name="paused", type="HTTP", spec={"url": deliveries.url(URL)}, retry_policy=policy)
    te.endpoints.pause("paused")
    job = te.jobs.create(endpoint="paused", trigger="IMMEDIATE", idempotency_key="1", input={})
    te_clock.advance("59m")
    assert status_of(te, job) == "QUEUED"
    te_clock.advance("2m")
    assert status_of(te, job) == "FAILED"
    assert len(deliveries) == 0


def test_te_enqueue_has_the_moved_time(te, te_stack, te_clock, deliveries):
    te.endpoints.create(name="enqueued", type="HTTP", spec={"url": deliveries.url(URL)})
    te_clock.advance("1d")
    with psycopg2.connect(te_stack.database_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT te_enqueue('enqueued', '{}', delay => '1 day')")
    te_clock.advance("23h")
    assert len(deliveries) == 0
    te_clock.advance("1h")
    assert len(deliveries) == 1


def test_handler_runs_in_the_thread_of_the_test_and_its_error_fails_the_test(te, te_clock, deliveries):
    threads = []
    deliveries.handle(URL, lambda _delivery: threads.append(threading.current_thread()))
    te.send(deliveries.url(URL))
    deliveries.wait()
    te.send(deliveries.url(URL), delay="1d")
    te_clock.advance("1d")
    assert threads == [threading.current_thread()] * 2

    for handler, error in ((lambda _delivery: {}["user"], KeyError), (lambda _delivery: te_clock.now(), RuntimeError)):
        deliveries.handle(URL, handler)
        te.send(deliveries.url(URL), delay="1d")
        with pytest.raises(error):
            te_clock.advance("1d")
    with pytest.raises(TimeoutError, match="4 of 5"):
        deliveries.wait(5, timeout=0.01)


def test_unanswered_delivery_and_wrong_durations_are_reported(te, te_clock):
    with pytest.raises(ValueError, match="10m"):
        te_clock.advance("soon")
    with pytest.raises(ValueError, match="days=-1"):
        te_clock.advance(timedelta(days=-1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        te.send(f"http://127.0.0.1:{silent.getsockname()[1]}", delay="1d")
        with pytest.raises(StackError, match="is RUNNING"):
            te_clock.advance("1d", timeout=1.0)
