"""Drivers of step generators: a generator yields steps without doing I/O, and the driver performs them."""

from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, TypeVar

from .failures import TaskExecutorError

Step = TypeVar("Step")
Result = TypeVar("Result")


def drive(steps: Generator[Step, Any, Result], do: Callable[[Step], Any]) -> Result:
    """Perform the steps of a generator.

    Args:
        steps: Generator that yields steps; the result of a step, or its TaskExecutorError, is sent into the generator.
        do: Performs a step and returns its result.

    Returns:
        Return value of the generator.

    Raises:
        Exception: Errors that the generator does not catch, and errors of `do` other than TaskExecutorError.
    """
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
    """Perform the steps of a generator.

    Args:
        steps: Generator that yields steps; the result of a step, or its TaskExecutorError, is sent into the generator.
        do: Performs a step and returns its result.

    Returns:
        Return value of the generator.

    Raises:
        Exception: Errors that the generator does not catch, and errors of `do` other than TaskExecutorError.
    """
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
