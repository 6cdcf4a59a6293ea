"""One dead letter: the failure, changes since, and its redrive or archiving."""

from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import form, refuse
from app.console.http.page_rendering import to
from app.console.http.request_values import once_a_request
from app.features.dead_letters.letter_list import get_letter
from app.features.dead_letters.redrive import Replacement
from app.features.dead_letters.redrive import redrive as redrive_letter
from app.features.dead_letters.since_failure import since_failure
from app.queue.ending import letters
from app.queue.ending.letters import DeadLetter
from app.web.http.conditions import actor
from app.web.services import services, wake

page = ConsolePage(
    "letter", "/dead-letters/<letter_id>", "Dead letter", reads="GET /dead-letters/<letter_id>", under="letters"
)


@page.region("life", live="letters")
def life(letter_id: str) -> Values:
    return {"letter": _letter(letter_id)}


@page.region("since", live="letters", reads="GET /dead-letters/<letter_id>/since")
def since(letter_id: str) -> Values:
    return {"since": since_failure(services().database, letter_id)}


@page.show
def show(letter_id: str) -> Values:
    return {"title": f"Dead letter of {_letter(letter_id).endpoint}"}


def _letter(letter_id: str) -> DeadLetter:
    return once_a_request("letter", get_letter, services().database, letter_id)


@action("POST /dead-letters/<letter_id>/redrive")
def redrive(letter_id: str) -> Done:
    """Redrive it: as the same execution, or as a new job of the endpoint in the form."""
    endpoint = form().text("endpoint")
    replacement = Replacement(endpoint) if endpoint else None
    wake(redrive_letter(services().creator, letter_id, replacement, actor=actor().name))
    letter = get_letter(services().database, letter_id)
    address = to("execution", execution_id=letter.redriven_as or letter.execution_id)
    return Done("It is redriven; this is its execution.", address)


@action("POST /dead-letters/<letter_id>/archive")
def archive(letter_id: str) -> Done:
    """Archive it, for the reason in the form."""
    note = form().text("note", longest=1000)
    if not note:
        refuse("note", "Write why the letter needs no redrive.")
    letters.archive(services().database, letter_id, note=note, actor=actor().name)
    return Done("It is archived.")
