"""Routes: which queue an endpoint's executions go to, by patterns of its name. Pure."""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Route:
    """A pattern of names of endpoints, and the queue for them.

    In a pattern `*` stands for any number of characters, `?` for one, and everything else for itself.
    """

    pattern: str
    queue: str


def queue_for(routes: Sequence[Route], endpoint: str) -> tuple[int, Route] | None:
    """Return the first route whose pattern an endpoint's name matches, and its position; None when none does."""
    return next(((position, route) for position, route in enumerate(routes) if matches(route.pattern, endpoint)), None)


def matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern, in at most as many steps as the product of their lengths.

    Each star takes as little as lets what follows it match, up to the next star, and is never made to take more: that
    would leave the later ones less to choose from. So nothing is tried in many ways (`fnmatch.translate`).
    """
    return _compiled(pattern).match(name) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
