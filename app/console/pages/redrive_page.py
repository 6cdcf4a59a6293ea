"""Redrive of the dead letters of a filter: preview, trial, rate."""

from typing import Any

from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import form
from app.console.http.page_rendering import now, to
from app.console.pages.bulk_form import MAX_WANTED, check_typed, faults_of, loaded
from app.console.pages.letters_page import letter_filter, wanted_letters
from app.features.dead_letters.redrives_api import NewRedriveSchema, begin_in, preview_in
from app.features.dead_letters.since_failure import since_failure
from app.kernel.errors import InvalidRequestError
from app.kernel.formats import compact_json
from app.web.http.conditions import actor
from app.web.services import services

TRIAL, LEAST, RATE = 10, 9, 20

page = ConsolePage("redrive", "/dead-letters/redrive", "Redrive", reads="POST /redrives/preview", under="letters")


@page.show
def show() -> Values:
    """Preview the redrive of the address, with the changes since its newest failure."""
    given, _, faults = letter_filter(now())
    wanted = wanted_letters(given, now()) if not faults else {}
    shown: Values = {"given": given, "faults": faults, "seen": None, "since": None}
    shown |= {"wanted": compact_json(wanted), "rate": RATE}
    shown |= {"back": to("letters", **{name: text for name, text in given.items() if name != "group"})}
    if faults:
        return shown
    try:
        body = loaded(NewRedriveSchema(), {"wanted": wanted, "all": not wanted})
    except InvalidRequestError as error:
        return shown | {"faults": faults_of(error)}
    seen = preview_in(services().creator, body)
    sample = seen["sample"]
    since = since_failure(services().database, sample[-1]["letter_id"]) if sample else None
    trial = max(1, min(TRIAL, (seen["count"] + 1) // 2))
    return shown | {"seen": seen, "since": since, "trial": trial, "least": trial - trial // 10}


@action("POST /redrives")
def begin() -> Done:
    """Begin the redrive of a form."""
    fields = form()
    wanted = fields.json_object("wanted", longest=MAX_WANTED)
    values: dict[str, Any] = {"wanted": wanted, "all": not wanted}
    values["rate"] = fields.whole("rate", RATE, least=1, most=10_000)
    if endpoint := fields.text("to_endpoint"):
        values["to_endpoint"] = endpoint
    if fields.flag("with_trial"):
        values["trial"] = fields.whole("trial", TRIAL, least=1, most=100)
        values["least"] = fields.whole("least", LEAST, least=1, most=100)
    check_typed()
    begun = begin_in(services().database, loaded(NewRedriveSchema(), values), actor().name)
    return Done(f"The redrive {begun.redrive_id} has begun.", to("walks"))
