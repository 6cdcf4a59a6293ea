"""Redrive of the dead letters of a filter: preview, trial, rate."""

from typing import Any

from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import form, query
from app.console.http.page_rendering import now, to
from app.console.pages.address_filter import IS_CHOICE, SINCE, refuse_misspelt
from app.console.pages.bulk_form import MAX_WANTED, check_typed, faults_of, loaded, rate_of
from app.console.pages.letters_page import NAMES, letter_filter, wanted_letters
from app.features.dead_letters.redrives_api import NewRedriveSchema, begin_in, preview_in
from app.features.dead_letters.since_failure import since_failure
from app.features.dead_letters.trial import MAX_TRIAL
from app.kernel.errors import InvalidRequestError
from app.kernel.formats import compact_json
from app.web.http.conditions import actor
from app.web.services import services

TRIAL, LEAST, RATE = 10, 9, 20

page = ConsolePage("redrive", "/dead-letters/redrive", "Redrive", reads="POST /redrives/preview", under="letters")


@page.show
def show() -> Values:
    """Preview the redrive of the address, with the changes since its newest failure."""
    refuse_misspelt((*NAMES, SINCE), IS_CHOICE, "rate", "to_endpoint", "trial", "least")
    given, _, faults = letter_filter(now())
    wanted = wanted_letters(given, now()) if not faults else {}
    shown: Values = {"given": given, "faults": faults, "seen": None, "since": None}
    shown |= {"wanted": compact_json(wanted), "rate": rate_of(query(), RATE)}
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
    return shown | {"seen": seen, "since": since, "to_endpoint": query().text("to_endpoint"), **_trial(seen["count"])}


def _trial(count: int) -> Values:
    """Return the trial of the address, 0 for none, by default one that fits the number of letters."""
    default = max(1, min(TRIAL, (count + 1) // 2))
    asked = query().whole("trial", default, least=0, most=MAX_TRIAL)
    trial = asked or default
    least = query().whole("least", trial - trial // 10, least=1, most=MAX_TRIAL)
    return {"with_trial": asked > 0, "trial": trial, "least": least}


@action("POST /redrives")
def begin() -> Done:
    """Begin the redrive of a form."""
    fields = form()
    wanted = fields.json_object("wanted", longest=MAX_WANTED)
    values: dict[str, Any] = {"wanted": wanted, "all": not wanted}
    values["rate"] = rate_of(fields, RATE)
    if endpoint := fields.text("to_endpoint"):
        values["to_endpoint"] = endpoint
    if fields.flag("with_trial"):
        values["trial"] = fields.whole("trial", TRIAL, least=1, most=MAX_TRIAL)
        values["least"] = fields.whole("least", LEAST, least=1, most=MAX_TRIAL)
    check_typed()
    begun = begin_in(services().database, loaded(NewRedriveSchema(), values), actor().name)
    return Done(f"The redrive {begun.redrive_id} has begun.", to("walks"))
