"""A module of a user with group callbacks and a rate limiter over the database of the service."""

import os
import signal
import time
from pathlib import Path

import dramatiq
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits import ConcurrentRateLimiter
from task_executor_dramatiq import ExecutionsLimiterBackend, TaskExecutorBroker

EFFECTS = Path(os.environ["EFFECTS"])
KILLED, RELEASED = EFFECTS.with_name("killed"), EFFECTS.with_name("released")


class KilledOnce(dramatiq.Middleware):
    """Kills the process once at the word `kill`, when the message has counted and its outcome is not sent yet."""

    def after_process_message(self, broker, message, *, result=None, exception=None):
        if message.args == ("kill",) and not KILLED.exists():
            KILLED.touch()
            os.kill(os.getpid(), signal.SIGKILL)


broker = TaskExecutorBroker(url=os.environ["BROKER_URL"])
limits = ExecutionsLimiterBackend(broker)
broker.add_middleware(KilledOnce())
broker.add_middleware(GroupCallbacks(limits))  # handles the end of a message before the middleware above
dramatiq.set_broker(broker)


def write(*words):
    with EFFECTS.open("a") as effects:
        effects.write(" ".join(words) + "\n")


@dramatiq.actor
def member(word):
    while word == "wait" and not RELEASED.exists():
        time.sleep(0.01)
    write("member", word)


@dramatiq.actor
def done(word):
    write("done", word)


@dramatiq.actor(max_retries=200, min_backoff=10, max_backoff=50)
def alone(word):
    with ConcurrentRateLimiter(limits, "alone").acquire():
        write("begin", word)
        time.sleep(0.02)  # its work, which another process would interrupt
        write("end", word)
