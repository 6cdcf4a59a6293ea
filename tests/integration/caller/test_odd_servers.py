"""Both clients where the service is not, or something else is in its place: an error of theirs, in time."""

import logging
import socket
import threading
from contextlib import suppress
from typing import Any

import pytest
from task_executor_client import ConnectionFailedError, Retries, UnexpectedAnswerError
from task_executor_client.answer import MAX_BYTES

from tests.integration.caller.conftest import Connect
from tests.integration.caller.serving import Redirect, Weather

ENDLESS = [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"]


def test_nobody_there(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    te = connect(f"http://127.0.0.1:{port}", "te_secret", retries=Retries(max_tries=3, first_wait=0.001))
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ConnectionFailedError) as failed:
        te.configs.delete("c")
    assert not failed.value.may_have_been_done
    assert sum("retrying in" in line for line in caplog.messages) == 2
    assert "te_secret" not in caplog.text + str(failed.value) + repr(failed.value) + repr(te)


def test_the_time_of_all_tries_is_bounded(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        te = connect(f"http://127.0.0.1:{silent.getsockname()[1]}", "k", retries=Retries(timeout=0.2, try_timeout=0.1))
        with pytest.raises(ConnectionFailedError):
            te.jobs.get("job_1")
        with pytest.raises(ConnectionFailedError):
            te.jobs.get("job_1", timeout=0.05)


@pytest.mark.parametrize("head", ENDLESS, ids=["head", "body"])
def test_the_time_of_an_answer_that_trickles_is_bounded(connect: Connect, head: bytes) -> None:
    gave_up, was_patient = threading.Event(), threading.Event()

    def trickle(listener: socket.socket) -> None:
        with listener.accept()[0] as connection, suppress(OSError):
            connection.sendall(head)
            for _ in range(1000):
                if gave_up.wait(0.01):
                    return
                connection.sendall(b" ")
            was_patient.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = threading.Thread(target=trickle, args=(listener,))
        sender.start()
        te = connect(f"http://127.0.0.1:{listener.getsockname()[1]}", "k", retries=Retries(timeout=0.3, max_tries=1))
        try:
            with pytest.raises(ConnectionFailedError):
                te.jobs.get("job_1")
            assert not was_patient.is_set()
        finally:
            gave_up.set()
            sender.join()


def test_what_is_not_the_service_is_told(te: Any, weather: Weather) -> None:
    weather.then(302)
    with pytest.raises(UnexpectedAnswerError, match="302"):
        te.jobs.get("job_1")


def test_a_redirect_is_not_looked_into(te: Any, weather: Weather) -> None:
    """Neither where it leads, which may be nowhere, nor what it says, without an end."""
    for location in ("http://[", "\xff", "https:///", "/elsewhere"):
        weather.then(Redirect(location))
        with pytest.raises(UnexpectedAnswerError, match="302"):
            te.jobs.get("job_1")
    weather.then(Redirect("/elsewhere", b"x" * (MAX_BYTES + 1)))
    with pytest.raises(UnexpectedAnswerError, match=f"more than {MAX_BYTES} bytes"):
        te.jobs.get("job_1")
    assert {each["path"] for each in weather.seen} == {"/jobs/job_1"}
