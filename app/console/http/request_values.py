"""Values that a request makes or reads once, for all parts of its page."""

from typing import TypeVar

from flask import g

from app.kernel.function_types import Run

T = TypeVar("T")


def once_a_request(name: str, make: Run[T]) -> T:
    """Return the value of this name; the first call of a request makes it."""
    key = f"console_{name}"
    if key not in g:
        setattr(g, key, make())
    found: T = getattr(g, key)
    return found
