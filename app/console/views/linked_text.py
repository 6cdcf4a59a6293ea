"""Ids of a text as links to their pages; pure."""

import re
from collections.abc import Iterator

from app.console.views.places import place_of

_KINDS = {"exec": "execution", "job": "job", "wf": "workflow"}
_ID = re.compile(rf"\b({'|'.join(_KINDS)})_[0-9a-f]{{32}}\b")


def linked(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text, each with the address of the page of its id; empty for the text between."""
    end = 0
    for found in _ID.finditer(text):
        if found.start() > end:
            yield text[end : found.start()], ""
        yield found[0], place_of(_KINDS[found[1]], found[0])
        end = found.end()
    if end < len(text):
        yield text[end:], ""
