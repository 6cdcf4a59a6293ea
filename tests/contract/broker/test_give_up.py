"""Giving up: a process without a lease ends, whatever else hangs."""

import subprocess
import sys

from brokers.worker_process import EXIT_LEASE_LOST

# Fills the pipe that it logs into, and then gives up from a thread of its own.
MUTE = """
import logging, os, threading
from app import db
from tests.contract.conftest import worker_process

database = db.connect("postgresql://nobody@127.0.0.1:1/none", pool_size=1, application_name="te-test")
process = worker_process(database, database)
logging.basicConfig(level=logging.INFO)
os.set_blocking(2, False)
try:
    while True:
        os.write(2, b"x" * 1024)
except BlockingIOError:
    os.set_blocking(2, True)
print("full", flush=True)
threading.Thread(target=process.give_up, args=["the test says so"]).start()
"""


def test_a_log_that_nobody_reads_keeps_no_process_alive() -> None:
    command = [sys.executable, "-c", MUTE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"full\n"
            assert process.wait(60) == EXIT_LEASE_LOST
        finally:
            process.kill()
