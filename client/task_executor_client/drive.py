"""Drives the generators that say what to do next, and do no I/O themselves."""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, TypeVar

from .failures import TaskExecutorError

Step = TypeVar("Step")
Result = TypeVar("Result")


def drive(steps: Generator[Step, Any, Result], do: Callable[[Step], Any]) -> Result:
    """Do each step, send back what came of it or raise its error in the generator, and return the result."""
    go_on = partial(steps.send, None)
    while True:
        try:
            step = go_on()
        except StopIteration as stop:
            result: Result = stop.value
            return result
        try:
            go_on = partial(steps.send, do(step))
        except TaskExecutorError as error:
            go_on = partial(steps.throw, error)


async def drive_async(steps: Generator[Step, Any, Result], do: Callable[[Step], Awaitable[Any]]) -> Result:
    """Do each step, send back what came of it or raise its error in the generator, and return the result."""
    go_on = partial(steps.send, None)
    while True:
        try:
            step = go_on()
        except StopIteration as stop:
            result: Result = stop.value
            return result
        try:
            go_on = partial(steps.send, await do(step))
        except TaskExecutorError as error:
            go_on = partial(steps.throw, error)
