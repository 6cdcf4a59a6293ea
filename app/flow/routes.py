"""Routes: which queue an endpoint's executions go to, by patterns of its name. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass


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

    Not by a regular expression: with many stars it could try every way to divide the name among them. Of the stars only
    the latest is ever moved on, since an earlier one that took more would leave the later ones less to choose from.
    """
    at, place, star, resume = 0, 0, -1, 0
    while place < len(name):
        if at < len(pattern) and pattern[at] == "*":
            star, resume = at, place
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", name[place]):
            at, place = at + 1, place + 1
        elif star >= 0:
            resume += 1
            at, place = star + 1, resume
        else:
            return False
    return not pattern[at:].strip("*")
