"""When a call is tried again: a generator that asks for each step and does no I/O, so that both clients share it."""

import logging
import math
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass

from .answer import Reply, retry_after
from .call import Call
from .failures import ConnectionFailedError

log = logging.getLogger("task_executor_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often and how long a call is tried; all in seconds.

    A wait is random between nothing and a bound that doubles from `first_wait` to `longest_wait` (full jitter), beyond
    what the service asks for. `timeout` is for all tries of a call together, `try_timeout` for one; for how long the
    service is asked to wait for a result is added to both.
    """

    timeout: float = 60.0
    try_timeout: float = 25.0
    most_tries: int = 10
    first_wait: float = 0.1
    longest_wait: float = 5.0

    def __post_init__(self) -> None:
        for name in ("timeout", "try_timeout", "first_wait", "longest_wait"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a number of seconds above 0")
        if self.most_tries < 1:
            raise ValueError("most_tries must be at least 1")


@dataclass(frozen=True, slots=True)
class Send:
    """Send the call now, and give it up after `timeout` seconds."""

    timeout: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for so many seconds."""

    seconds: float


Outcome = Reply | ConnectionFailedError | None
Steps = Generator[Send | Pause, Outcome, Reply]


def exchange(call: Call, retries: Retries, clock: Callable[[], float], wall_clock: Callable[[], float]) -> Steps:
    """Yield what is to be done, be sent what came of it, and return the reply that is the last word.

    Raises ConnectionFailedError where there is none. The call is the same each time, and so is its key.
    """
    end = clock() + (retries.timeout + call.held_seconds if call.timeout is None else call.timeout)
    tried = 0
    while True:
        outcome = yield Send(min(retries.try_timeout + call.held_seconds, max(0.001, end - clock())))
        if outcome is None:
            raise TypeError("what came of the request is needed")
        tried += 1
        wait = wait_before_next(call, outcome, tried, retries, wall_clock())
        if wait is None or tried >= retries.most_tries or clock() + wait >= end:
            if isinstance(outcome, ConnectionFailedError):
                raise outcome
            return outcome
        log.info("%s is tried again in %.1f s: %s", call.operation, wait, _reason(outcome))
        yield Pause(wait)


def wait_before_next(
    call: Call, outcome: Reply | ConnectionFailedError, tried: int, retries: Retries, now: float
) -> float | None:
    """Return how many seconds to wait before the next try, None if there is none; `tried` counts from 1."""
    jitter = random.uniform(0, min(retries.longest_wait, retries.first_wait * 2 ** (tried - 1)))
    if isinstance(outcome, ConnectionFailedError):
        return jitter if call.repeatable or not outcome.may_have_been_done else None
    asked = retry_after(outcome, now)
    # These two say that nothing was done, if the service says when to come again.
    refused = outcome.status in {429, 503} and asked is not None
    if refused or (call.repeatable and (outcome.status >= 500 or outcome.status == 429)):
        return (asked or 0.0) + jitter
    return None


def _reason(outcome: Reply | ConnectionFailedError) -> str:
    return str(outcome) if isinstance(outcome, ConnectionFailedError) else f"answered {outcome.status}"
