"""Steps: what is being done, announced while it is done."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Step = Callable[[str], AbstractContextManager[object]]
"""Called with what is about to be done, entered while it is done."""


def silently(_what: str) -> AbstractContextManager[object]:
    return nullcontext()
