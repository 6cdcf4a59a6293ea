"""Values that a request makes or reads once, for all parts of its page."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from flask import g

T = TypeVar("T")
P = ParamSpec("P")


def once_a_request(name: str, make: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the value of this name; the first call of a request makes it."""
    key = f"console_{name}"
    if key not in g:
        setattr(g, key, make(*args, **kwargs))
    found: T = getattr(g, key)
    return found
