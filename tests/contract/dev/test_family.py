"""Processes that a process has started, by which faults stop and end them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from app.dev.process.child import family, freeze, signal_all

LAST_NUMBER = Path("/proc/sys/kernel/ns_last_pid")
TRIES = 50
FORKS = "for n in $(seq 400); do sleep 60 & echo; done; wait"


@contextmanager
def waiting() -> Iterator[int]:
    """Start a process that waits; return its number."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    assert process.stdin is not None
    with process, closing(process.stdin):
        yield process.pid


@pytest.mark.skipif(not os.access(LAST_NUMBER, os.W_OK), reason="only root chooses the number of the next process")
def test_process_with_the_number_of_an_earlier_one_is_found() -> None:
    with waiting() as number:
        assert number in family(os.getpid())
    for _ in range(TRIES):  # a process of another test may take the number
        LAST_NUMBER.write_text(str(number - 1))
        with waiting() as second:
            if second == number:
                assert number in family(os.getpid())
                return
    pytest.skip("the number was never free")


def test_process_that_starts_others_meanwhile_is_frozen_with_all_of_them() -> None:
    process = subprocess.Popen(["bash", "-c", FORKS], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process, closing(process.stdout):
        process.stdout.readline()
        frozen = freeze(process.pid)
        try:
            assert len(frozen) < 400  # it was not through
            assert set(family(process.pid)) == set(frozen)
            assert {psutil.Process(pid).status() for pid in frozen} == {psutil.STATUS_STOPPED}
        finally:
            signal_all(frozen, signal.SIGKILL)
