"""Time limit of a write of the actor kit, against a pair of sockets."""

import socket
import threading

import pytest
from task_executor_dramatiq.timed_send import send_within

from tests.unit.dispatch.conftest import PATIENCE_SECONDS

READ_BYTES, READ_EACH_SECONDS = 32_768, 0.01
DATA = b"x" * 8_000_000  # for the slow reader, 2.4 s


def test_write_to_a_slow_reader_ends_in_time() -> None:
    """A limit of the socket bounds each of its waits, and a reader that reads a little ends none of them."""
    ours, theirs = socket.socketpair()
    has_ended = threading.Event()

    def read_slowly() -> None:
        while not has_ended.wait(READ_EACH_SECONDS):
            theirs.recv(READ_BYTES)

    reader = threading.Thread(target=read_slowly)
    reader.start()
    with ours, theirs:
        try:
            with pytest.raises(TimeoutError, match=r"within 0\.1 s"):
                send_within(ours, DATA, 0.1)
        finally:
            ours.shutdown(socket.SHUT_RDWR)
            has_ended.set()
            reader.join(PATIENCE_SECONDS)


def test_write_to_a_reader_sends_all_bytes() -> None:
    ours, theirs = socket.socketpair()
    found = bytearray()

    def read() -> None:
        while data := theirs.recv(READ_BYTES):
            found.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    with ours, theirs:
        send_within(ours, DATA, PATIENCE_SECONDS)
        ours.shutdown(socket.SHUT_WR)
        reader.join(PATIENCE_SECONDS)
    assert found == DATA
