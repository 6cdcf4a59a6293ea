"""Fixtures of the tests of dispatchers."""

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PATIENCE_SECONDS = 20.0
KEY: dict[str, Any] = {"execution": "e", "attempt": 1}


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder for sockets of a worker."""
    folder = Path(tempfile.mkdtemp(prefix="te-"))  # short: a path of a socket is
    yield folder
    shutil.rmtree(folder)


@contextmanager
def listener(path: Path) -> Iterator[socket.socket]:
    """Listen as a worker does, for the processes of a test."""
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(PATIENCE_SECONDS)
        server.bind(str(path))
        server.listen()
        yield server


@pytest.fixture
def listening(sockets: Path) -> Iterator[tuple[Path, socket.socket]]:
    """A socket of the test, where a process of actors expects a worker."""
    path = sockets / "w.sock"
    with listener(path) as server:
        yield path, server
