"""Inputs and answers: shown always, or with `TE_CONSOLE_INPUTS=closed` of one resource at a time.

Then only frames of pages show them, since a browser reads regions by itself, and the log notes each opening.
"""

import logging

from app.console.http.forms import query
from app.kernel.config import CLOSED
from app.web.http.conditions import actor
from app.web.services import services

log = logging.getLogger(__name__)

ASKED, SHOWN = "inputs", "shown"  # the query that opens those of a page


def are_closed() -> bool:
    return services().settings.console_inputs == CLOSED


def opened(noun: str, name: str) -> bool:
    """Return whether the frame of a page shows the inputs and answers of a resource; notes an opening."""
    if not are_closed():
        return True
    if query().text(ASKED) != SHOWN:
        return False
    note_opening(noun, name)
    return True


def note_opening(noun: str, name: str) -> None:
    """Note that a person opened the inputs and answers of a resource, unless all are open."""
    if are_closed():
        log.info("the key %s (%s) opened inputs and answers: %s %s", actor().name, actor().actor_id, noun, name)
