"""Fixtures of the tests of dispatchers."""

import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE_SECONDS = 20.0


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder for sockets of a worker."""
    folder = Path(tempfile.mkdtemp(prefix="te-"))  # short: a path of a socket is
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def listening(sockets: Path) -> Iterator[tuple[Path, socket.socket]]:
    """A socket of the test, where a process of actors expects a worker."""
    path = sockets / "w.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(PATIENCE_SECONDS)
        server.bind(str(path))
        server.listen()
        yield path, server
