"""Simulation of the schedules of a filter, with an outage of the schedulers or other rules."""

from typing import Any

from marshmallow import ValidationError

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.page_rendering import now, to
from app.console.pages.job_form import as_utc
from app.console.pages.schedule_filter import given_filter, schedule_filter
from app.console.views.text_by_name import TextByName
from app.features.simulate.api import simulate_in, subjects_of
from app.features.simulate.simulation_schemas import SimulationQuestionSchema
from app.kernel.formats import marshmallow_faults
from app.web.services import services
from schema.states import CatchUp, Overlap

ROWS = 50
_CATCH_UPS = (
    (CatchUp.ALL.value, "catch up on all"),
    (CatchUp.LATEST.value, "catch up on the latest"),
    (CatchUp.NONE.value, "leave out"),
)
_OVERLAPS = ((Overlap.ALLOW.value, "start anyway"), (Overlap.SKIP.value, "leave out"))
_OUTAGE = ("outage_start", "outage_end")
_FIELDS = ("length", "takes", "catch_up", "overlap")

page = ConsolePage(
    "what_if",
    "/schedules/what-if",
    "What if",
    reads="POST /schedules/simulate",
    under="schedules",
    after="schedule_editor",
    link="What if…",
    examples=["length=1d"],
)


@page.show
def show() -> Values:
    """Simulate the question of the address; the form is on the same page."""
    shown: Values = {
        "given": TextByName(given_filter() | {name: query().text(name) for name in (*_FIELDS, *_OUTAGE)}),
        "catch_ups": _CATCH_UPS,
        "overlaps": _OVERLAPS,
        "lengths": [("1d", "a day"), ("3d", "three days"), ("7d", "a week")],
        "schedules": to("schedules", **given_filter()),
        "faults": TextByName(),
        "found": None,
        "asked": bool(query().text("length")),
    }
    if not shown["asked"]:
        return shown
    try:
        body: dict[str, Any] = SimulationQuestionSchema().load(_question())
    except ValidationError as error:
        told = {"_".join(map(str, path)): message for path, message in marshmallow_faults(error.messages)}
        faults = TextByName(told)
        return shown | {"faults": faults}
    subjects, is_complete = subjects_of(services().database, body)
    found = simulate_in(body, subjects)
    most = max(found.total.hours.values(), default=1)
    hours = sorted(found.total.hours)
    busy = sorted(found.loads, key=lambda each: -each.load.starts)
    return shown | {
        "found": found,
        "is_complete": is_complete,
        "rows": busy[:ROWS],
        "more": max(0, len(busy) - ROWS),
        "hours": [(at, found.total.hours[at], round(60 * found.total.hours[at] / most, 1)) for at in hours],
        "most": most,
    }


def _question() -> dict[str, Any]:
    """Return the body of a request that asks for the same."""
    wanted, fields = schedule_filter(query()), query()
    asked: dict[str, Any] = {"start": now().replace(microsecond=0).isoformat()}
    asked |= {name: text for name in _FIELDS if (text := fields.text(name))}
    asked |= {name: value for name in ("endpoint", "name", "labels") if (value := getattr(wanted, name)) is not None}
    begin, end = fields.text("outage_start"), fields.text("outage_end")
    if begin or end:
        asked["outage"] = {name: as_utc(text) for name, text in (("start", begin), ("end", end)) if text}
    return asked
