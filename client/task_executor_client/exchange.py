"""Exchange: the retries of a call as a step generator without I/O, shared by both clients."""

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
    """Limits of the retries of a call; times in seconds. Immutable, so clients and threads may share it.

    Waits have full jitter: random between 0 and a bound that doubles from `first_wait` to `longest_wait`, plus
    Retry-After.

    Args:
        timeout: Limit of all tries of a call, waits included. `timeout` of an operation replaces it. The time for which
            a call asks the service to delay its answer (`wait`, `prefer`) is added.
        try_timeout: Limit of a single try, to which the same time is added.
        max_tries: Largest number of tries, at least 1; 1 for no retries.
        first_wait: Bound of the first wait.
        longest_wait: Largest bound of a wait.

    Raises:
        ValueError: A value is out of range.

    Example:
        te = Client("https://te.example.org", key, retries=Retries(timeout=10, max_tries=3))
    """

    timeout: float = 60.0
    try_timeout: float = 25.0
    max_tries: int = 10
    first_wait: float = 0.1
    longest_wait: float = 5.0

    def __post_init__(self) -> None:
        for name in ("timeout", "try_timeout", "first_wait", "longest_wait"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be a number of seconds above 0")
        if self.max_tries < 1:
            raise ValueError("max_tries must be at least 1")


@dataclass(frozen=True, slots=True)
class Send:
    """Step: send the call, with a limit of `timeout` seconds."""

    timeout: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Step: wait for `seconds`."""

    seconds: float


Outcome = Reply | ConnectionFailedError | None
Steps = Generator[Send | Pause, Outcome, Reply]


def exchange(call: Call, retries: Retries, clock: Callable[[], float], wall_clock: Callable[[], float]) -> Steps:
    """Yield steps until a reply is final. Each try sends the same idempotency key.

    Args:
        call: Call to send.
        retries: Limits of the tries.
        clock: Seconds of a clock that never goes back, such as `time.monotonic`.
        wall_clock: Unix time in seconds, for a Retry-After with a date.

    Returns:
        The final reply, of any status.

    Raises:
        ConnectionFailedError: The last try received no reply.
    """
    end = clock() + (retries.timeout + call.held_seconds if call.timeout is None else call.timeout)
    tried = 0
    while True:
        outcome = yield Send(min(retries.try_timeout + call.held_seconds, max(0.001, end - clock())))
        if outcome is None:
            raise TypeError("send the outcome of the request")
        tried += 1
        wait = wait_before_next(call, outcome, tried, retries, wall_clock())
        if wait is None or tried >= retries.max_tries or clock() + wait >= end:
            if isinstance(outcome, ConnectionFailedError):
                raise outcome
            return outcome
        log.info("%s failed: %s; retrying in %.1f s", call.operation, _reason(outcome), wait)
        yield Pause(wait)


def wait_before_next(
    call: Call, outcome: Reply | ConnectionFailedError, tried: int, retries: Retries, now: float
) -> float | None:
    """Return the seconds before the next try.

    Args:
        call: Call that was sent.
        outcome: Reply, or the failure to get a reply.
        tried: Number of tries so far, from 1.
        retries: Limits of the waits.
        now: Unix time in seconds.

    Returns:
        Seconds; None if the outcome is final.
    """
    jitter = random.uniform(0, min(retries.longest_wait, retries.first_wait * 2 ** (tried - 1)))
    if isinstance(outcome, ConnectionFailedError):
        return jitter if call.repeatable or not outcome.may_have_been_done else None
    asked = retry_after(outcome, now)
    # 429 and 503 with Retry-After mean that the service did nothing.
    refused = outcome.status in {429, 503} and asked is not None
    if refused or (call.repeatable and (outcome.status >= 500 or outcome.status == 429)):
        return (asked or 0.0) + jitter
    return None


def _reason(outcome: Reply | ConnectionFailedError) -> str:
    return str(outcome) if isinstance(outcome, ConnectionFailedError) else f"status {outcome.status}"
