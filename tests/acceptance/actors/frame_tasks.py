"""A module of a user whose connection to its worker goes through a relay of the tests, the socket RELAY.

Each actor appends its name and the id of its message to the file EFFECTS.
"""

import os
import socket
import time
from pathlib import Path

import dramatiq
from dramatiq.middleware import CurrentMessage
from task_executor_dramatiq import TaskExecutorBroker, link
from task_executor_dramatiq.worker_sockets import WorkerSockets

EFFECTS = Path(os.environ["EFFECTS"])


class RelayedSockets(WorkerSockets):
    """Sockets of workers; the relay gets the connection, so the worker sees the credentials of this process."""

    def connect(self):
        with super().connect() as worker:
            relay = socket.socket(socket.AF_UNIX)
            relay.connect(os.environ["RELAY"])
            socket.send_fds(relay, [b"."], [worker.fileno()])
            return relay


if "RELAY" in os.environ:
    link.WorkerSockets = RelayedSockets

broker = TaskExecutorBroker(url=os.environ["BROKER_URL"])
broker.add_middleware(CurrentMessage())
dramatiq.set_broker(broker)


def write(name):
    with EFFECTS.open("a") as effects:
        effects.write(f"{name} {CurrentMessage.get_current_message().message_id}\n")


@dramatiq.actor
def run():
    write("run")


@dramatiq.actor
def follow(*_past):
    write("follow")


@dramatiq.actor
def hold(word):
    """Poll until the file named by `word` exists: an abort interrupts Python code, but no wait in a system call."""
    write("hold")
    while not Path(word).exists():
        time.sleep(0.01)


@dramatiq.actor(min_backoff=10, max_backoff=10)
def again():
    """Fail at the first run."""
    write("again")
    if EFFECTS.read_text().count(CurrentMessage.get_current_message().message_id) == 1:
        raise ValueError("not yet")


@dramatiq.actor(max_retries=0, on_retry_exhausted="follow")
def fail():
    write("fail")
    raise ValueError("never")
