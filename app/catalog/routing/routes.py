"""Routes: patterns of endpoint names, and their queues. Pure."""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Route:
    """Pattern of endpoint names, and the queue of matching endpoints.

    `*` matches any number of characters, `?` one character, and all other characters themselves.
    """

    pattern: str
    queue: str


def queue_for(routes: Sequence[Route], endpoint: str) -> tuple[int, Route] | None:
    """Return the first route that matches an endpoint's name, with its position; None without a match."""
    return next(((position, route) for position, route in enumerate(routes) if matches(route.pattern, endpoint)), None)


def matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern; takes at most the product of their lengths in steps.

    `fnmatch.translate` compiles each star to an atomic group with the shortest match, so the match never backtracks.
    """
    return _compiled(pattern).match(name) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
