"""Both clients against an unreachable service or another server: an error of the client, within the timeout."""

import logging
import socket
import threading
from contextlib import suppress
from typing import Any

import pytest
from task_executor_client import ConnectionFailedError, Retries, UnexpectedAnswerError
from task_executor_client.answer import MAX_BYTES

from tests.integration.caller.conftest import Connect
from tests.integration.caller.serving import FaultyNetwork, Redirect

ENDLESS = [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"]


def test_unreachable_service_raises_after_the_last_try(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    te = connect(f"http://127.0.0.1:{port}", "te_secret", retries=Retries(max_tries=3, first_wait=0.001))
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ConnectionFailedError) as failed:
        te.configs.delete("c")
    assert not failed.value.may_have_been_done
    assert sum("retrying in" in line for line in caplog.messages) == 2
    assert "te_secret" not in caplog.text + str(failed.value) + repr(failed.value) + repr(te)


def test_timeout_covers_all_tries(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        te = connect(f"http://127.0.0.1:{silent.getsockname()[1]}", "k", retries=Retries(timeout=0.2, try_timeout=0.1))
        with pytest.raises(ConnectionFailedError):
            te.jobs.get("job_1")
        with pytest.raises(ConnectionFailedError):
            te.jobs.get("job_1", timeout=0.05)


@pytest.mark.parametrize("head", ENDLESS, ids=["head", "body"])
def test_timeout_covers_an_answer_that_trickles(connect: Connect, head: bytes) -> None:
    has_given_up, has_sent_everything = threading.Event(), threading.Event()

    def trickle(listener: socket.socket) -> None:
        with listener.accept()[0] as connection, suppress(OSError):
            connection.sendall(head)
            for _ in range(1000):
                if has_given_up.wait(0.01):
                    return
                connection.sendall(b" ")
            has_sent_everything.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = threading.Thread(target=trickle, args=(listener,))
        sender.start()
        te = connect(f"http://127.0.0.1:{listener.getsockname()[1]}", "k", retries=Retries(timeout=0.3, max_tries=1))
        try:
            with pytest.raises(ConnectionFailedError):
                te.jobs.get("job_1")
            assert not has_sent_everything.is_set()
        finally:
            has_given_up.set()
            sender.join()


def test_answer_of_another_server_raises_an_error(te: Any, network: FaultyNetwork) -> None:
    network.fail_next(302)
    with pytest.raises(UnexpectedAnswerError, match="302"):
        te.jobs.get("job_1")


def test_redirect_is_not_followed(te: Any, network: FaultyNetwork) -> None:
    """The client neither parses the location, which may be invalid, nor reads the body without a limit."""
    for location in ("http://[", "\xff", "https:///", "/elsewhere"):
        network.fail_next(Redirect(location))
        with pytest.raises(UnexpectedAnswerError, match="302"):
            te.jobs.get("job_1")
    network.fail_next(Redirect("/elsewhere", b"x" * (MAX_BYTES + 1)))
    with pytest.raises(UnexpectedAnswerError, match=f"more than {MAX_BYTES} bytes"):
        te.jobs.get("job_1")
    assert {each["path"] for each in network.requests} == {"/jobs/job_1"}
