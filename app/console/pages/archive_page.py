"""Archiving of the dead letters of a filter: a preview, and the form that starts the bulk operation."""

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.page_rendering import now, to
from app.console.pages.address_filter import IS_CHOICE, SINCE, refuse_misspelt
from app.console.pages.bulk_form import RATE, faults_of, loaded, rate_of
from app.console.pages.letters_page import NAMES, letter_filter, wanted_letters
from app.features.bulk_jobs.api import preview_in
from app.features.bulk_jobs.schemas import NewBulkOperationSchema
from app.kernel.errors import InvalidRequestError
from app.kernel.formats import compact_json
from app.web.services import services
from schema.states import BulkAction

page = ConsolePage(
    "archive", "/dead-letters/archive", "Archive", reads="POST /bulk-operations/preview", under="letters"
)


@page.show
def show() -> Values:
    """Preview the operation of the address."""
    refuse_misspelt((*NAMES, SINCE), IS_CHOICE, "rate")
    given, _, faults = letter_filter(now())
    wanted = wanted_letters(given, now()) if not faults else {}
    shown: Values = {"given": given, "faults": faults, "seen": None, "wanted": compact_json(wanted)}
    shown |= {"rate": rate_of(query(), RATE)}
    shown |= {"back": to("letters", **{name: text for name, text in given.items() if name != "group"})}
    if faults:
        return shown
    values = {"action": BulkAction.ARCHIVE.value, "wanted": wanted, "all": not wanted, "note": "preview"}
    try:
        body = loaded(NewBulkOperationSchema(), values)
    except InvalidRequestError as error:
        return shown | {"faults": faults_of(error)}
    return shown | {"seen": preview_in(services().creator, body)}
