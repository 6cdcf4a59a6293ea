"""Outcomes of the actor kit, against a socket of the test: each is kept until a worker answers."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from task_executor_dramatiq import outcomes
from task_executor_dramatiq.frames import FrameReader, encode
from task_executor_dramatiq.held_messages import Inbox
from task_executor_dramatiq.link import Links
from task_executor_dramatiq.outcomes import Outcomes

from tests.unit.dispatch.conftest import PATIENCE_SECONDS, listener
from tests.waiting import eventually

WELCOME = encode("WELCOME", endpoints={}, refused={})


def key(number: int) -> dict[str, Any]:
    return {"execution": f"e{number}", "attempt": 1}


def message(number: int) -> bytes:
    return encode("MESSAGE", actor="mail", queue="mails", input={}, **key(number))


class Peer:
    """Worker's side of a connection that a process opens."""

    def __init__(self, server: socket.socket) -> None:
        self.socket, _ = server.accept()
        self.socket.settimeout(PATIENCE_SECONDS)
        self._frames = FrameReader()

    def outcomes(self, count: int) -> list[str]:
        """Return the executions of the next outcomes."""
        found = list[str]()
        while len(found) < count:
            arrived = self._frames.feed(self.socket.recv(65_536))
            found += [frame["execution"] for frame in arrived if frame["kind"] == "DONE"]
        return found

    def answer(self, number: int, *, is_written: bool) -> None:
        self.socket.sendall(encode("WRITTEN", is_written=is_written, **key(number)))


def opened(links: Links, server: socket.socket, *sent: bytes) -> Peer:
    """Open a link to a worker that sends frames."""
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(links.open)
        peer = Peer(server)
        peer.socket.sendall(b"".join([WELCOME, *sent]))
        opening.result(PATIENCE_SECONDS)
    return peer


def end_next(inbox: Inbox) -> None:
    taken = inbox.get(timeout=PATIENCE_SECONDS)
    taken.start()
    taken.conclude(is_failed=False)


def test_unanswered_outcomes_go_first_by_the_next_connection(
    listening: tuple[Path, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    """Also an outcome that the worker has stored: its answer was lost with the connection."""
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 3)
    first = opened(links, server, message(1), message(2), message(3))
    for _ in range(2):
        end_next(inbox)
    last = inbox.get(timeout=PATIENCE_SECONDS)
    last.start()
    assert first.outcomes(2) == ["e1", "e2"]
    first.answer(1, is_written=True)
    eventually(lambda: links.outcomes.wait(0) == 1)  # nothing else shows that it was read
    server.close()  # the last outcome ends without a connection
    path.unlink()
    first.socket.close()
    eventually(lambda: not links.is_open)
    last.conclude(is_failed=False)
    with listener(path) as again:
        second = Peer(again)
        assert second.outcomes(2) == ["e2", "e3"]
        with ThreadPoolExecutor(1) as pool:
            closed = pool.submit(links.close)
            second.answer(2, is_written=False)
            second.socket.setblocking(False)
            with pytest.raises(BlockingIOError):  # the process waits for the answers before it ends its side
                second.socket.recv(1)
            second.socket.settimeout(PATIENCE_SECONDS)
            second.answer(3, is_written=True)
            assert second.socket.recv(65_536) == b""
            second.socket.close()
            closed.result(PATIENCE_SECONDS)
    text = "the outcome of execution e2, attempt 1, came too late or twice, and changes nothing"
    assert [record.getMessage() for record in caplog.records if "outcome" in record.getMessage()] == [text]


def test_process_that_ends_without_a_connection_says_how_many_outcomes_are_unsent(
    listening: tuple[Path, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 2)
    peer = opened(links, server, message(1), message(2))
    taken = [inbox.get(timeout=PATIENCE_SECONDS) for _ in range(2)]
    for each in taken:
        each.start()
    server.close()
    path.unlink()
    peer.socket.close()
    eventually(lambda: not links.is_open)
    for each in taken:
        each.conclude(is_failed=False)
    links.close()
    (line,) = (record.getMessage() for record in caplog.records if "not stored" in record.getMessage())
    assert line == "outcomes that the worker has not stored: 2; their messages may run again"


@pytest.mark.parametrize("bound", ["MAX_OUTCOMES", "MAX_BYTES"])
def test_oldest_outcomes_are_given_up_beyond_the_bounds(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(outcomes, bound, 2)
    lock = threading.RLock()
    kept = Outcomes(lock, lambda _: True)
    for number in range(4):
        kept.add(("e", number), b"x")
        if number == 0:
            kept.send()
    assert [*kept.unsent] == [("e", 2), ("e", 3)]
    with lock:
        kept.end_connection(is_read=False)
    assert [*kept.unsent] == [("e", 2), ("e", 3)]


def sent_by(peer: Peer, reader: FrameReader, count: int) -> list[tuple[str, str]]:
    """Return the next frames of a process about its messages."""
    found = list[tuple[str, str]]()
    while len(found) < count:
        arrived = reader.feed(peer.socket.recv(65_536))
        found += [(frame["kind"], frame["execution"]) for frame in arrived if "execution" in frame]
    return found


def test_outcome_goes_with_the_start_of_the_next_message(listening: tuple[Path, socket.socket]) -> None:
    """Two writes for each message would cost more than all the rest of its way."""
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 2)
    peer, reader = opened(links, server, message(1), message(2)), FrameReader()
    eventually(lambda: len(links.held) == 2)
    end_next(inbox)
    assert sent_by(peer, reader, 1) == [("STARTED", "e1")]
    peer.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        peer.socket.recv(1)
    peer.socket.settimeout(PATIENCE_SECONDS)
    end_next(inbox)
    assert sent_by(peer, reader, 3) == [("DONE", "e1"), ("STARTED", "e2"), ("DONE", "e2")]
    peer.socket.close()
    links.close()


@pytest.mark.parametrize("event", ["DROP", "ABORT", "pause", "stop"])
def test_outcome_waits_for_no_start_that_may_not_come(listening: tuple[Path, socket.socket], event: str) -> None:
    path, server = listening
    links = Links(f"unix:{path}", list)
    inbox = links.set_room("mails", 2)
    peer, reader = opened(links, server, message(1), message(2)), FrameReader()
    eventually(lambda: len(links.held) == 2)
    if event == "pause":
        thread = threading.Thread(target=end_next, args=(inbox,))
        thread.paused = True  # type: ignore[attr-defined] - as Dramatiq's threads have it
        thread.start()
        thread.join(PATIENCE_SECONDS)
    else:
        end_next(inbox)
    if event == "stop":
        links.stop_messages()
    elif event != "pause":
        peer.socket.sendall(encode(event, **key(2)))
    assert ("DONE", "e1") in sent_by(peer, reader, 2)
    peer.socket.close()
    links.close()
