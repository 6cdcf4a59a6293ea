"""Function types: types of functions that many modules take as arguments."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row, TextClause

T = TypeVar("T")

AnyFunction = Callable[..., Any]
"""Function that a decorator takes or returns, such as a view or a command."""
Run = Callable[[], T]
Call = Run[object]
Clock = Run[float]
"""Returns an instant in seconds, as `time.monotonic` does."""
Hint = Callable[[str], object]
"""Takes the name of a queue with new claimable executions; the wake-up may get lost."""
Fetch = Callable[["TextClause", Mapping[str, Any]], "Sequence[Row[Any]]"]
"""Runs a query with its parameters, in a transaction or outside."""
Counted = Callable[[int], object]
"""Takes the number of rows that a batch of long work has processed."""
Stopping = Run[bool]
"""Returns true once long work shall end after its current step."""
Title = Callable[[T], str]
"""Writes a value for people, in one line."""
Work = Callable[["Connection"], T]
"""Works in a transaction; may run several times, so it has no other effect."""
WrittenEvents = Callable[[Sequence[str]], object]
"""Takes the ids of completion events that this process has written."""
Written = Callable[[bool], None]
"""Takes whether the end of an attempt was written, or came too late."""


def never() -> bool:
    return False


def nobody(_queue: str) -> None:
    """Ignore a wake-up."""


def uncounted(_rows: int) -> None:
    """Ignore a number of rows."""
