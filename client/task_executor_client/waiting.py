"""Waiting for an end: a generator that asks for each step, so that both clients share it."""

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
LONGEST_HELD = 20  # seconds of one request; less than what proxies cut off
HELD = 0.1  # seconds: what was answered sooner was not held

Waiting = Generator[Call | Pause, Any, models.Execution]


def until_ended(id_: str, timeout: float, clock: Callable[[], float] = time.monotonic) -> Waiting:
    """Yield calls and pauses until an execution has ended; a job's id stands for its newest execution.

    Raises WaitTimeoutError, and ValueError for an id of anything else.
    """
    end = clock() + timeout
    looked = 0
    while True:
        try:
            execution = yield from _look(id_, max(0.001, end - clock()))
        except ConnectionFailedError as error:
            if clock() < end:
                raise
            raise WaitTimeoutError(f"{id_} could not be looked at within {timeout:g} s; it goes on") from error
        if execution is not None and execution["status"] in FINAL:
            return execution
        looked += 1
        if execution is not None and clock() < end and (yield from _was_held(execution, end, clock)):
            continue
        # Between a half and the whole of it: who waits for many ends does not ask for all of them at once.
        wait = min(LONGEST_WAIT, FIRST_WAIT * 1.5**looked) * random.uniform(0.5, 1)
        left = end - clock()
        if left <= 0:
            state = "has no execution yet" if execution is None else f"is {execution['status']}"
            raise WaitTimeoutError(f"{id_} {state} after {timeout:g} s; it goes on")
        yield Pause(min(wait, left))


def _was_held(execution: models.Execution, end: float, clock: Callable[[], float]) -> Generator[Call, Any, bool]:
    """Let the service hold a request until the end; returns false where it answered at once, as it does when busy."""
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
        return False  # 410: over, and its result is kept no longer; 503: too many wait. The next look tells.
    # Without a connection for it nothing was sent.
    return result is not None and (result["status"] in FINAL or clock() - began >= HELD)


def _look(id_: str, left: float) -> Generator[Call, Any, models.Execution | None]:
    if id_.startswith("exec_"):
        found: models.Execution = yield _get("executions.get", "/executions/{id}", id_, left)
        return found
    if not id_.startswith("job_"):
        raise ValueError(f"the id of an execution or a job is needed, not {id_!r}")
    page = yield Call.of(
        "jobs.list_executions", "GET", "/jobs/{id}/executions", path={"id": id_}, query={"limit": 1}, timeout=left
    )
    items: list[models.Execution] = page["items"]
    return items[0] if items else None


def _get(operation: str, template: str, id_: str, left: float) -> Call:
    return Call.of(operation, "GET", template, path={"id": id_}, timeout=left)
