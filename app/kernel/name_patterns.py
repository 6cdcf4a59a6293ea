"""Patterns of names: `*` stands for any characters, `?` for one."""

import fnmatch
import re
from functools import lru_cache


def matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern; takes at most the product of their lengths in steps.

    `fnmatch.translate` compiles each star to an atomic group with the shortest match, so the match never backtracks.
    """
    return _compiled(pattern).match(name) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
