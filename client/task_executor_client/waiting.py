"""Waiting for the end of an execution as a step generator without I/O, shared by both clients."""

import random
import time
from collections.abc import Callable, Generator
from typing import Any

from . import models
from .call import Call
from .exchange import Pause
from .failures import ApiError, ConnectionFailedError, UnexpectedAnswerError, WaitTimeoutError

FINAL = frozenset({"SUCCESS", "FAILED", "CANCELLED"})
FIRST_WAIT = 0.1
LONGEST_WAIT = 2.0
LONGEST_HELD = 20  # seconds of a long poll, below the usual timeouts of proxies
HELD = 0.1  # seconds; a faster answer was not held by the service

Waiting = Generator[Call | Pause, Any, models.Execution]


def until_ended(id_: str, timeout: float, clock: Callable[[], float] = time.monotonic) -> Waiting:
    """Yield calls and pauses until an execution has ended.

    Args:
        id_: Id of an execution, or of a job for its newest execution.
        timeout: Limit in seconds.
        clock: Seconds of a clock that never goes back.

    Returns:
        The ended execution.

    Raises:
        WaitTimeoutError: The execution has not ended within `timeout` seconds.
        ValueError: The id belongs to neither an execution nor a job.
    """
    end = clock() + timeout
    polls = 0
    while True:
        try:
            execution = yield from _poll(id_, max(0.001, end - clock()))
        except ConnectionFailedError as error:
            if clock() < end:
                raise
            raise WaitTimeoutError(f"{id_} could not be read within {timeout:g} s; the execution continues") from error
        if execution is not None and execution["status"] in FINAL:
            return execution
        polls += 1
        if execution is not None and clock() < end and (yield from _was_held(execution, end, clock)):
            continue
        # Jitter spreads the polls of clients that wait for many executions.
        wait = min(LONGEST_WAIT, FIRST_WAIT * 1.5**polls) * random.uniform(0.5, 1)
        left = end - clock()
        if left <= 0:
            state = "has no execution yet" if execution is None else f"is {execution['status']}"
            raise WaitTimeoutError(f"{id_} {state} after {timeout:g} s; the execution continues")
        yield Pause(min(wait, left))


def _was_held(execution: models.Execution, end: float, clock: Callable[[], float]) -> Generator[Call, Any, bool]:
    """Long-poll the result; return False if the service answered at once, as it does when busy."""
    began = clock()
    seconds = max(1, min(LONGEST_HELD, int(end - began)))
    call = Call.of(
        "executions.result",
        "GET",
        "/executions/{id}/result",
        path={"id": execution["execution_id"]},
        query={"wait": f"{seconds}s"},
        timeout=max(0.001, end - began),
    )
    try:
        result: models.Result | None = yield call
    except (ConnectionFailedError, ApiError, UnexpectedAnswerError):
        return False  # 410: ended with an expired result; 503: too many waiting requests. The next poll decides.
    # None means that no connection was free and nothing was sent.
    return result is not None and (result["status"] in FINAL or clock() - began >= HELD)


def _poll(id_: str, left: float) -> Generator[Call, Any, models.Execution | None]:
    if id_.startswith("exec_"):
        found: models.Execution = yield Call.of(
            "executions.get", "GET", "/executions/{id}", path={"id": id_}, timeout=left
        )
        return found
    if not id_.startswith("job_"):
        raise ValueError(f"id must begin with exec_ or job_, not {id_!r}")
    page = yield Call.of(
        "jobs.list_executions", "GET", "/jobs/{id}/executions", path={"id": id_}, query={"limit": 1}, timeout=left
    )
    items: list[models.Execution] = page["items"]
    return items[0] if items else None
