"""A module of a user: actors over TaskExecutorBroker, which the tests run by `dramatiq user_tasks`.

Each actor appends a line to the file EFFECTS.
"""

import ctypes
import os
import signal
import time
from pathlib import Path

import dramatiq
from task_executor_dramatiq import TaskExecutorBroker
from task_executor_dramatiq.celery_style import CeleryActor

EFFECTS = Path(os.environ.get("EFFECTS", os.devnull))

broker = TaskExecutorBroker(url=os.environ["BROKER_URL"], key=os.environ.get("BROKER_KEY"))
dramatiq.set_broker(broker)


class NotAgainError(Exception):
    """An expected error."""


def write(*words: object) -> None:
    with EFFECTS.open("a") as effects:
        effects.write(" ".join(map(str, words)) + "\n")


def lines() -> list[str]:
    return EFFECTS.read_text().splitlines() if EFFECTS.exists() else []


@dramatiq.actor
def note(*words: object, **named: object) -> None:
    write("note", *words, *(f"{name}={value}" for name, value in sorted(named.items())))


@dramatiq.actor(max_retries=3, min_backoff=20, max_backoff=100)
def succeed_at_third(word: str) -> None:
    write("try", word)
    if lines().count(f"try {word}") < 3:
        raise ValueError(f"not yet: {word}")


@dramatiq.actor(max_retries=2, min_backoff=10, max_backoff=20)
def always_fail(word: str) -> None:
    write("fail", word)
    try:
        {}["inner"]
    except KeyError as error:
        raise ValueError(word) from error


@dramatiq.actor(throws=NotAgainError, max_retries=5, min_backoff=10)
def throw(word: str) -> None:
    write("throw", word)
    raise NotAgainError(word)


@dramatiq.actor(max_retries=0)
def need(path: str) -> None:
    """Fail without the file."""
    write("need")
    Path(path).read_text()


@dramatiq.actor(store_results=True)
def add(first: int, second: int) -> int:
    write("add", first, second)
    return first + second


@dramatiq.actor(store_results=True, max_retries=0)
def fail_with_result() -> None:
    raise NotAgainError("no result")


@dramatiq.actor
def hold(word: str) -> None:
    """Poll until the file named by `word` exists: an abort interrupts Python code, but no wait in a system call."""
    write("hold", word)
    while not Path(word).exists():
        time.sleep(0.01)
    write("held", word)


@dramatiq.actor
def hold_gil(seconds: int) -> None:
    """Keep the lock of the interpreter, so that no other thread of the process runs."""
    write("gil", seconds)
    ctypes.PyDLL(None).sleep(seconds)
    write("released")


@dramatiq.actor(max_retries=0)
def kill(word: str) -> None:
    """Kill the process that runs it."""
    write("kill", word)
    os.kill(os.getpid(), signal.SIGKILL)


@dramatiq.actor(actor_class=CeleryActor, store_results=True)
def multiply(first: int, second: int) -> int:
    return first * second


@dramatiq.actor(cron="0 9 * * *", timezone="Europe/Berlin")
def report() -> None:
    write("report")


@dramatiq.actor(queue_name="Other.Queue", priority=10)
def other(word: str) -> None:
    write("other", word)
