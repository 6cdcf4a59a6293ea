"""Troubles of the actor kit with workers, against sockets of the test: they hang, refuse, send rubbish, or are gone."""

import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

import pytest
from dramatiq.errors import BrokerConnectionError
from task_executor_dramatiq import link, troubles
from task_executor_dramatiq.frames import encode
from task_executor_dramatiq.link import Links

from tests.unit.dispatch.conftest import KEY, PATIENCE_SECONDS, listener
from tests.waiting import eventually


@contextmanager
def two_workers(sockets: Path, links: Links) -> Iterator[tuple[Future[None], socket.socket, socket.socket]]:
    """Open the link to one of two workers; yield the opening, the listener of the chosen worker, and the other."""
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool, DefaultSelector() as selector:
        servers = [stack.enter_context(listener(sockets / f"{name}.sock")) for name in ("a", "b")]
        for each in servers:
            selector.register(each, EVENT_READ)
        opened = pool.submit(links.open)
        chosen = selector.select(PATIENCE_SECONDS)[0][0].fileobj
        first, second = servers if chosen is servers[0] else reversed(servers)
        yield opened, first, second


def test_process_connects_again_only_after_growing_pauses(listening: tuple[Path, socket.socket]) -> None:
    path, server = listening
    links = Links(f"unix:{path}", list)
    closed_at = []
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        for _ in range(4):
            connection, _ = server.accept()
            closed_at.append(time.monotonic())
            connection.close()
        connection, _ = server.accept()
        connection.sendall(encode("WELCOME", endpoints={}, refused={}))
        opened.result(PATIENCE_SECONDS)
        connection.close()
    links.close()
    assert closed_at[-1] - closed_at[0] >= 0.05 + 0.1 + 0.2


@pytest.mark.parametrize("hang", ["before the welcome", "during a write"])
def test_process_leaves_a_worker_that_hangs_for_another_one(
    sockets: Path, monkeypatch: pytest.MonkeyPatch, hang: str
) -> None:
    monkeypatch.setattr(link, "WRITE_SECONDS" if hang == "during a write" else "WELCOME_SECONDS", 0.1)
    links = Links(f"unix:{sockets}", list)
    inbox = links.set_room("mails", 1)
    with two_workers(sockets, links) as (opened, first, second), ExitStack() as stack:
        hanging = stack.enter_context(first.accept()[0])
        if hang == "before the welcome":
            with pytest.raises(BrokerConnectionError, match="does not answer"):
                opened.result(PATIENCE_SECONDS)
        else:
            hanging.sendall(encode("WELCOME", endpoints={}, refused={}))
            hanging.sendall(encode("MESSAGE", actor="mail", queue="mails", input={}, **KEY))
            message = inbox.get(timeout=PATIENCE_SECONDS)
            message.start()
            message.results.append("x" * 4_000_000)
            message.conclude(is_failed=False)
        stack.enter_context(second.accept()[0])
    links.close()


def test_refused_process_says_why_and_waits_longer(
    listening: tuple[Path, socket.socket], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert troubles.REFUSED_PAUSE_SECONDS > 10 * troubles.MAX_PAUSE_SECONDS
    monkeypatch.setattr(troubles, "REFUSED_PAUSE_SECONDS", 2 * troubles.MAX_PAUSE_SECONDS)
    path, server = listening
    links = Links(f"unix:{path}", list)
    refused_at = []
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        for _ in range(2):
            connection, _ = server.accept()
            refused_at.append(time.monotonic())
            with connection:
                connection.sendall(encode("REFUSED", reason="The API key is not valid."))
        with pytest.raises(BrokerConnectionError, match=r"refuses this process: The API key is not valid\."):
            opened.result(PATIENCE_SECONDS)
    links.close()
    assert refused_at[1] - refused_at[0] >= troubles.REFUSED_PAUSE_SECONDS
    assert {record.levelname for record in caplog.records} == {"ERROR"}


def test_process_that_one_worker_refuses_goes_to_another_at_once(sockets: Path) -> None:
    links = Links(f"unix:{sockets}", list)
    with two_workers(sockets, links) as (opened, first, second):
        with first.accept()[0] as refusing:
            refusing.sendall(encode("REFUSED", reason="it may have no more"))
        with pytest.raises(BrokerConnectionError, match="may have no more"):
            opened.result(PATIENCE_SECONDS)
        began = time.monotonic()
        with second.accept()[0]:
            pass
        assert time.monotonic() - began < troubles.REFUSED_PAUSE_SECONDS / 2
    links.close()


def test_trouble_with_workers_is_logged_once_until_a_worker_takes_the_process(
    listening: tuple[Path, socket.socket], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(troubles, "MIN_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(troubles, "MAX_PAUSE_SECONDS", 0.01)
    path, server = listening
    links = Links(f"unix:{path}", list)
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        for _ in range(4):
            with server.accept()[0] as connection:
                connection.sendall(struct.pack("!I", 1) + b"?")
                while connection.recv(65_536):
                    pass
        with server.accept()[0] as connection:
            connection.sendall(encode("WELCOME", endpoints={}, refused={}))
            opened.result(PATIENCE_SECONDS)
            eventually(lambda: "takes this process" in caplog.text)
    links.close()
    broken, taken, *_ = [record.getMessage() for record in caplog.records]
    assert broken.startswith("the connection to the worker broke: a frame is not JSON")
    assert taken == f"the worker at {path} takes this process"


def test_second_consumer_of_a_refused_process_hears_the_reason_at_once(
    listening: tuple[Path, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, server = listening
    links = Links(f"unix:{path}", list)
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        connection, _ = server.accept()
        with connection:
            connection.sendall(encode("REFUSED", reason="The API key is not valid."))
        with pytest.raises(BrokerConnectionError, match="is not valid"):
            opened.result(PATIENCE_SECONDS)
        eventually(lambda: not links.is_open)
        monkeypatch.setattr(link, "WELCOME_SECONDS", None)  # for ever: only an answer that is known ends the wait
        with pytest.raises(BrokerConnectionError, match="is not valid"):
            pool.submit(links.open).result(PATIENCE_SECONDS)
    links.close()


def test_process_whose_worker_is_gone_hears_at_once_that_nothing_listens(
    listening: tuple[Path, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, server = listening
    links = Links(f"unix:{path.parent}", list)
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        connection, _ = server.accept()
        connection.sendall(encode("WELCOME", endpoints={}, refused={}))
        opened.result(PATIENCE_SECONDS)
        monkeypatch.setattr(link, "WELCOME_SECONDS", None)
        server.close()
        path.unlink()
        connection.close()
        eventually(lambda: not links.is_open)
        with pytest.raises(BrokerConnectionError, match=f"TE_ACTORS_LISTEN={path.parent}"):
            pool.submit(links.open).result(PATIENCE_SECONDS)
    links.close()
