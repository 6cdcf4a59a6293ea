"""Link of the actor kit, against a socket of the test."""

import shutil
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from task_executor_dramatiq.frames import encode
from task_executor_dramatiq.link import Links

PATIENCE_SECONDS = 20.0
KEY: dict[str, Any] = {"execution": "e", "attempt": 1}


@pytest.fixture
def listening() -> Iterator[tuple[Path, socket.socket]]:
    folder = Path(tempfile.mkdtemp(prefix="te-"))  # short: a path of a socket is
    path = folder / "w.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(PATIENCE_SECONDS)
        server.bind(str(path))
        server.listen()
        yield path, server
    shutil.rmtree(folder)


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
    frames = (
        encode("WELCOME", endpoints={}, refused={}),
        encode("MESSAGE", actor="mail", queue="mails", input={}, **KEY),
        encode("ABORT", **KEY),
        encode("DRAIN"),
    )
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(read_to_the_end, server, *frames)
        links.open()
        assert left.result(2 * PATIENCE_SECONDS)
    links.close()
