"""Filter of schedules in an address, and the day that is shown."""

from datetime import date, datetime

from marshmallow import ValidationError

from app.console.http.forms import Fields, query, refuse
from app.console.http.page_rendering import now
from app.console.http.viewer_zone import zone_name
from app.console.views.text_by_name import TextByName
from app.kernel.formats import marshmallow_faults
from app.queue.jobs.job_list import JobFilter
from app.schedule.day import Day
from app.schedule.zones import fault_of, time_zone
from app.web.jobs.labels import LabelSelector
from app.web.jobs.schedule_day_schemas import FIRST_DAY, LAST_DAY

FILTERS = ("endpoint", "name", "labels")


def given_filter() -> dict[str, str]:
    """Return the filters of the address as they were typed; an empty text for a missing filter."""
    return TextByName({name: query().text(name) for name in FILTERS if query().text(name)})


def schedule_filter(fields: Fields) -> JobFilter:
    """Return the filter of schedules; raises InvalidRequestError."""
    text = fields.text("labels")
    labels = labels_of(text) if text else None
    return JobFilter(endpoint=fields.text("endpoint") or None, name=fields.text("name") or None, labels=labels)


def labels_of(text: str) -> dict[str, str]:
    """Return the labels of a filter; raises InvalidRequestError."""
    try:
        labels: dict[str, str] = LabelSelector().deserialize(text)
    except ValidationError as error:
        refuse("labels", " ".join(message for _, message in marshmallow_faults(error.messages)))
    return labels


def shown_zone() -> str:
    """Return the zone of the address, else the zone of the viewer; raises InvalidRequestError for an unknown zone."""
    zone = query().text("zone", zone_name())
    if message := fault_of(zone):
        refuse("zone", message)
    return zone


def shown_day() -> Day:
    """Return the day of the address, today without a date; raises InvalidRequestError."""
    zone, text = shown_zone(), query().text("date")
    try:
        local = date.fromisoformat(text) if text else now().astimezone(time_zone(zone)).date()
    except ValueError:
        refuse("date", "Must be a date, such as 2026-03-29.")
    if not FIRST_DAY <= local <= LAST_DAY:
        refuse("date", f"Must be from {FIRST_DAY} to {LAST_DAY}.")
    return Day.of(local, zone)


def zoned(at: datetime, zone: str) -> datetime:
    """Return an instant in a zone that exists."""
    return at.astimezone(time_zone(zone))
