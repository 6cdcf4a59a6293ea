"""Jobs: the list of a filter, newest first."""

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import given_values, query
from app.console.http.list_export import exports
from app.console.http.list_pages import AFTER, address_behind, position_after
from app.console.http.page_rendering import here, to
from app.console.pages.schedule_filter import schedule_filter
from app.console.views.schedule_words import rule_of
from app.kernel.db.paging import PageRequest
from app.queue.jobs.job_list import JobFilter, page_of_jobs
from app.queue.jobs.job_model import Job
from app.web.services import services
from schema.states import JobStatus, Trigger

ROWS = 50
FILTERS = ("endpoint", "name", "labels", "status", "trigger")
_WORDS = {Trigger.IMMEDIATE: "at once", Trigger.DELAYED: "later"}

page = ConsolePage("jobs", "/jobs", "Jobs", reads="GET /jobs", nav="Jobs", shortcut="j")


@page.show
def show() -> Values:
    """Return the filter, which a person types."""
    return {
        "given": {name: query().text(name) for name in FILTERS},
        "statuses": [(each.value, each.value.lower()) for each in JobStatus],
        "triggers": [(each.value, each.value.lower()) for each in Trigger],
    }


@page.region("list", live="jobs")
def list_() -> Values:
    """Read a page of jobs."""
    found = page_of_jobs(services().database, wanted_jobs(), PageRequest(ROWS, position_after()))
    return {
        "jobs": [(job, _when(job)) for job in found.items],
        "older": address_behind(found.next),
        "newest": here(**{AFTER: ""}) if position_after() else "",
        "is_filtered": any(query().text(name) for name in FILTERS),
        "schedules": to("schedules"),
        "exports": exports("jobs", given_values(FILTERS)),
    }


def wanted_jobs() -> JobFilter:
    """Return the filter of the address; raises InvalidRequestError."""
    fields, common = query(), schedule_filter(query())
    status = fields.choice("status", [each.value for each in JobStatus])
    trigger = fields.choice("trigger", [each.value for each in Trigger])
    return JobFilter(
        status=JobStatus(status) if status else None,
        trigger=Trigger(trigger) if trigger else None,
        endpoint=common.endpoint,
        name=common.name,
        labels=common.labels,
    )


def _when(job: Job) -> str:
    return _WORDS[job.trigger] if job.timetable is None else rule_of(job.timetable)
