"""Link of the actor kit, against a socket of the test."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from dramatiq import Message
from dramatiq.errors import BrokerConnectionError
from task_executor_dramatiq import frames, link
from task_executor_dramatiq.consumer import ActorConsumer
from task_executor_dramatiq.frames import FrameReader, encode
from task_executor_dramatiq.link import Links

PATIENCE_SECONDS = 20.0
KEY: dict[str, Any] = {"execution": "e", "attempt": 1}


@pytest.fixture
def listening(sockets: Path) -> Iterator[tuple[Path, socket.socket]]:
    path = sockets / "w.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(PATIENCE_SECONDS)
        server.bind(str(path))
        server.listen()
        yield path, server


def read_to_the_end(server: socket.socket, *frames: bytes) -> bool:
    """Send frames to the process that connects; return whether it closes its connection."""
    connection, _ = server.accept()
    server.close()
    with connection:
        connection.settimeout(PATIENCE_SECONDS)
        connection.sendall(b"".join(frames))
        while connection.recv(65_536):
            pass
    return True


def test_process_leaves_a_stopping_worker_after_the_abort_of_a_message_that_was_not_started(
    listening: tuple[Path, socket.socket],
) -> None:
    path, server = listening
    links = Links(f"unix:{path}", list)
    links.set_room("mails", 1)
    sent = (
        encode("WELCOME", endpoints={}, refused={}),
        encode("MESSAGE", actor="mail", queue="mails", input={}, **KEY),
        encode("ABORT", **KEY),
        encode("DRAIN"),
    )
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(read_to_the_end, server, *sent)
        links.open()
        assert left.result(2 * PATIENCE_SECONDS)
    links.close()


def test_refused_process_connects_again_only_after_growing_pauses(
    listening: tuple[Path, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "WELCOME_SECONDS", 0.01)
    path, server = listening
    links = Links(f"unix:{path}", list)
    refused_at = []
    with pytest.raises(BrokerConnectionError, match="does not answer"):
        links.open()
    for _ in range(4):
        connection, _ = server.accept()
        refused_at.append(time.monotonic())
        with connection:
            connection.sendall(encode("REFUSED", reason="another protocol"))
    links.close()
    assert refused_at[-1] - refused_at[0] >= 0.05 + 0.1 + 0.2


def test_outcome_that_is_too_large_to_send_fails_its_message(
    listening: tuple[Path, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 1_000)
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 1)
    with ThreadPoolExecutor(1) as pool:
        opened = pool.submit(links.open)
        connection, _ = server.accept()
        connection.settimeout(PATIENCE_SECONDS)
        connection.sendall(encode("WELCOME", endpoints={}, refused={}))
        connection.sendall(encode("MESSAGE", actor="mail", queue="mails", input={}, **KEY))
        opened.result(PATIENCE_SECONDS)
    message = inbox.get(timeout=PATIENCE_SECONDS)
    message.start()
    message.results.append("x" * 1_000)
    message.conclude(is_failed=False)
    links.close()
    with connection:
        sent = b"".join(iter(lambda: connection.recv(65_536), b""))
    *_, outcome = FrameReader().feed(sent)
    assert (outcome["kind"], outcome["error"]["type"]) == ("FAILED", "RESULT_TOO_LARGE")


def test_consumer_ignores_messages_that_it_has_not_brought(listening: tuple[Path, socket.socket]) -> None:
    path, server = listening
    consumer = ActorConsumer(Links(f"unix:{path}", list), "mails", 1, 0)
    foreign: Any = Message("mails", "mail", (), {}, {})
    consumer.ack(foreign)
    consumer.nack(foreign)
    server.setblocking(False)
    with pytest.raises(BlockingIOError):
        server.accept()
