"""A process without a lease ends, even if its log output or another thread blocks."""

import subprocess
import sys

from brokers.worker_process import EXIT_LEASE_LOST

# A process that fills the pipe of its log, and then gives up its lease in a second thread.
BLOCKED_LOG = """
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


# A process with two threads: the second gives up the lease while the first ends the process.
TWO_THREADS = """
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
first = threading.Thread(target=process.give_up, args=["the test says so"])
first.start()
first.join()  # Python 3.12 starts no further thread once the main thread has ended
"""


def test_two_threads_that_give_up_count_one_lost_lease() -> None:
    done = subprocess.run([sys.executable, "-c", TWO_THREADS], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (EXIT_LEASE_LOST, "1.0\n")
    assert done.stderr.count("lost its lease") == 1


def test_process_with_a_blocked_log_ends_without_its_lease() -> None:
    command = [sys.executable, "-c", BLOCKED_LOG]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"full\n"
            assert process.wait(60) == EXIT_LEASE_LOST
        finally:
            process.kill()
