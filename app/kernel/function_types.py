"""Function types: types of functions that many modules take as arguments."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from sqlalchemy import Connection

T = TypeVar("T")

Call = Callable[[], object]
Clock = Callable[[], float]
"""Returns an instant in seconds, as `time.monotonic` does."""
Hint = Callable[[str], object]
"""Takes the name of a queue with new claimable executions; the wake-up may get lost."""
Counted = Callable[[int], object]
"""Takes the number of rows that a batch of long work has processed."""
Run = Callable[[], T]
Stopping = Callable[[], bool]
"""Returns true once long work shall end after its current step."""
Work = Callable[["Connection"], T]
"""Works in a transaction; may run several times, so it has no other effect."""


def never() -> bool:
    return False


def nobody(_queue: str) -> None:
    """Ignore a wake-up."""


def uncounted(_rows: int) -> None:
    """Ignore a number of rows."""
