"""Functions started at the same instant on several threads."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def at_once(*bodies: Callable[[], T]) -> list[T]:
    """Run each body in its own thread, all from the same instant, and return their results."""
    barrier, results, errors = threading.Barrier(len(bodies)), dict[int, T](), list[BaseException]()

    def run(index: int, body: Callable[[], T]) -> None:
        try:
            barrier.wait(60)
            results[index] = body()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(bodies)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return [results[index] for index in range(len(bodies))]
