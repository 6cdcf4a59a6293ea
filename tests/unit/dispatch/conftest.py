"""Fixtures of the tests of dispatchers."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder for sockets of a worker."""
    folder = Path(tempfile.mkdtemp(prefix="te-"))  # short: a path of a socket is
    yield folder
    shutil.rmtree(folder)
