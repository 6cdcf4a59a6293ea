"""Giving up: a process without a lease ends, whatever else hangs."""

import subprocess
import sys

from brokers.worker_process import EXIT_LEASE_LOST

# Fills the pipe that it logs into, and then gives up from a thread of its own.
MUTE = """
import logging, os, threading
from app.kernel import db
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


# Finds it out on a second thread while the first one is ending the process.
TWICE = """
import threading
from app.kernel import db
from app.kernel.metrics.series import LOST_LEASES
from tests.contract.conftest import worker_process

database = db.connect("postgresql://nobody@127.0.0.1:1/none", pool_size=1, application_name="te-test")
calls = []

def publish():
    calls.append(1)
    if len(calls) == 1:
        second = threading.Thread(target=process.give_up, args=["the test says so, too"])
        second.start()
        second.join()
    print(process.values.total(LOST_LEASES), flush=True)

process = worker_process(database, database, publish)
threading.Thread(target=process.give_up, args=["the test says so"]).start()
"""


def test_two_threads_that_find_it_out_lose_one_lease() -> None:
    done = subprocess.run([sys.executable, "-c", TWICE], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (EXIT_LEASE_LOST, "1.0\n")
    assert done.stderr.count("lost its lease") == 1


def test_a_log_that_nobody_reads_keeps_no_process_alive() -> None:
    command = [sys.executable, "-c", MUTE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"full\n"
            assert process.wait(60) == EXIT_LEASE_LOST
        finally:
            process.kill()
