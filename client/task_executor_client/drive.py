"""Drivers of step generators: a generator yields steps without doing I/O, and the driver performs them."""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, TypeVar

from .failures import TaskExecutorError

Step = TypeVar("Step")
Result = TypeVar("Result")


def drive(steps: Generator[Step, Any, Result], do: Callable[[Step], Any]) -> Result:
    """Perform each step, send its result or error into the generator, and return the generator's result."""
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
    """Perform each step, send its result or error into the generator, and return the generator's result."""
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
