"""Steps: announcements around parts of the work."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Step = Callable[[str], AbstractContextManager[object]]
"""Takes the description of a step; the context lasts as long as the step."""


def silently(_what: str) -> AbstractContextManager[object]:
    return nullcontext()
