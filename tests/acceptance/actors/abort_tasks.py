"""A module of a user with middleware of other projects: dramatiq-abort, over a folder of files, and periodiq."""

import os
import time
from pathlib import Path

import dramatiq
from dramatiq_abort import Abortable
from dramatiq_abort.backend import Event, EventBackend
from periodiq import PeriodiqMiddleware, cron
from task_executor_dramatiq import TaskExecutorBroker

EFFECTS = Path(os.environ["EFFECTS"])
EVENTS = Path(os.environ["EVENTS"])


class FolderBackend(EventBackend):
    """Events as files, which all processes of a host see."""

    def poll(self, key):
        return Event(key, {}) if (EVENTS / key).exists() else None

    def wait_many(self, keys, timeout):
        until = time.monotonic() + timeout / 1000
        while time.monotonic() < until:
            if (found := next(filter(None, map(self.poll, keys)), None)) is not None:
                return found
            time.sleep(0.01)
        return None

    def notify(self, events, ttl):
        for event in events:
            (EVENTS / event.key).touch()


broker = TaskExecutorBroker(url=os.environ["BROKER_URL"])
broker.add_middleware(Abortable(backend=FolderBackend()))
broker.add_middleware(PeriodiqMiddleware())
dramatiq.set_broker(broker)


def write(line):
    with EFFECTS.open("a") as effects:
        effects.write(f"{line}\n")


@dramatiq.actor(max_retries=0)
def hold(word):
    write(f"hold {word}")
    while True:
        time.sleep(0.01)


@dramatiq.actor(periodic=cron("* * * * *"), max_retries=0)
def tick():
    write("tick")
