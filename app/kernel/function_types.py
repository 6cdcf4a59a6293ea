"""Function types: the functions that many parts take as arguments."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

Call = Callable[[], object]
"""Does something without arguments."""
Clock = Callable[[], float]
"""Returns an instant in seconds, as `time.monotonic` does."""
Hint = Callable[[str], object]
"""Takes the name of a queue in which something became claimable; may be lost."""
Counted = Callable[[int], object]
"""Takes how many rows a batch of long work has processed."""
Run = Callable[[], T]
"""Returns the result of some work."""
Stopping = Callable[[], bool]
"""Returns true once work in several steps is to end between two of them."""
Work = Callable[["Connection"], T]
"""Works in a transaction; may run several times, so it has no other effect."""


def never() -> bool:
    """Return false: nothing stops the work."""
    return False


def nobody(_queue: str) -> None:
    """Take a hint that concerns nobody."""


def uncounted(_rows: int) -> None:
    """Take a number of rows that nobody shows."""
