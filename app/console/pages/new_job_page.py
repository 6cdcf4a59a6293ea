"""New job: a form made from the schema of its endpoint, and the request that it stands for."""

from typing import Any

from flask import Response, request

from app.catalog.endpoints import versions
from app.console.http import closed_contents
from app.console.http.actions import ONCE, Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import form, query
from app.console.http.page_rendering import once, to
from app.console.pages import job_form
from app.console.pages.schedule_preview import preview_of
from app.console.views.curl_text import curl_of
from app.console.views.input_field import COUNT
from app.console.views.schema_form import MAX_ITEMS
from app.console.views.text_by_name import TextByName
from app.kernel.db.paging import PageRequest
from app.kernel.errors import EndpointNotFoundError, TaskExecutorError
from app.queue.jobs.job_queries import get_job
from app.web.catalog import similar_endpoints
from app.web.http.request_log import trace_of_new_jobs
from app.web.jobs.answer_schemas import JobSchema
from app.web.jobs.creating import permitted
from app.web.jobs.request_schemas import NewJobSchema
from app.web.services import services
from schema.states import Trigger

WHEN = {"now": Trigger.IMMEDIATE, "later": Trigger.DELAYED, "cron": Trigger.CRON, "every": Trigger.INTERVAL}
_LABELS = (("now", "at once"), ("later", "later, once"), ("cron", "by cron"), ("every", "at an interval"))
_ADD = "add:"
MAX_ENDPOINTS = 200

# A key that only sends to a `url` has no endpoint to choose.
page = ConsolePage("new_job", "/jobs/new", "New job", reads="PUT /jobs/<job_id>", under="jobs")


@page.show
def show() -> Values:
    """Return the form: empty, of an endpoint, or like another job."""
    texts = job_form.texts_in(request.args)
    if like := query().text("like"):
        texts = _texts_like(like) | texts
    return _values(_typed(texts), is_new=True)


@page.region("runs", reads="POST /cron/preview")
def runs() -> Values:
    """Preview the schedule that is being typed."""
    return preview_of(query())


@page.typed
def check() -> Values:
    """Return the form with its faults and its request; a browser shows only these while a person types."""
    # No suggestion for a name that is not whole yet: it would cost more than the check.
    typed = _typed(job_form.texts_in(request.form), suggests=False)
    _checked(typed)
    return _values(typed)


@action("POST /jobs")
def create() -> Done | Response:
    """Create a job, or show the form with its faults or with another item of a list."""
    texts = job_form.texts_in(request.form)
    wanted = form().text("do")
    if wanted.startswith(_ADD):
        name = f"{COUNT}{wanted.removeprefix(_ADD)}"
        number = texts.get(name, "1")
        texts[name] = str(min(MAX_ITEMS, int(number) + 1 if number.isdigit() and len(number) < 4 else 2))
        return page.answer({}, _values(_typed(texts)))
    typed = _typed(texts)
    loaded = _checked(typed)
    if loaded is None or wanted == "check":
        return page.answer({}, _values(typed, is_checked=loaded is not None), 200 if loaded is not None else 422)
    try:
        created = services().creator.create(permitted(loaded, trace_of_new_jobs()), together=True)
    except TaskExecutorError as error:
        typed.add_faults(error)
        return page.answer({}, _values(typed), 422)
    verb = "created" if created.is_new else "found: one with this key exists"
    return Done(f"The job is {verb}.", to("job", job_id=created.job.job_id))


def _typed(texts: dict[str, str], *, suggests: bool = True) -> job_form.TypedJob:
    endpoint, schema, fault = texts.get("endpoint", "").strip(), None, ""
    if endpoint:
        try:
            schema = job_form.schema_of(endpoint)
        except EndpointNotFoundError as error:
            fault = (similar_endpoints.explained(error) if suggests else error).message
    when = texts.get("when", "now")
    trigger = WHEN.get(when, Trigger.IMMEDIATE)
    typed = job_form.typed_job(texts, schema, trigger=trigger.value)
    if fault:
        typed.faults["endpoint"] = fault
    typed.body = {"endpoint": endpoint, "trigger": trigger.value} | typed.body
    if not trigger.repeats:
        # A form that is sent twice creates one job; each page that shows the request as `curl` has another key.
        typed.body.setdefault("idempotency_key", f"console-{request.form.get(ONCE) or once()}")
    return typed


def _checked(typed: job_form.TypedJob) -> dict[str, Any] | None:
    """Return the body as the API would load it; None if it has faults."""
    loaded = job_form.load(NewJobSchema(), typed, typed.body)
    if "endpoint" not in typed.faults and typed.body["endpoint"]:
        job_form.input_faults(typed.body["endpoint"], typed)
    return None if typed.faults else loaded


def _values(typed: job_form.TypedJob, *, is_new: bool = False, is_checked: bool = False) -> Values:
    when, endpoint = typed.texts.get("when", ""), typed.body["endpoint"]
    shown = job_form.shown_form(typed) | {
        "when": when if when in WHEN else "now",
        "whens": _LABELS,
        "endpoint": endpoint,
        "endpoints": _endpoints(),
        "is_new": is_new,
        "is_checked": is_checked,
        "curl": curl_of("POST", f"{request.host_url.rstrip('/')}/jobs", typed.body) if endpoint else "",
    }
    if is_new:  # nothing was typed yet but the endpoint
        shown["faults"] = TextByName({name: fault for name, fault in typed.faults.items() if name == "endpoint"})
    return shown


def _endpoints() -> list[str]:
    return sorted(each.name for each in versions.page(services().database, PageRequest(MAX_ENDPOINTS)).items)


def _texts_like(job_id: str) -> dict[str, str]:
    """Return the texts of a form that creates a job like an existing job."""
    job = get_job(services().database, job_id)
    closed_contents.note_opening("job", job_id)
    shaped = JobSchema().dump(job)
    names = {*job_form.PLAIN, *job_form.WHOLE, "fixed_delay"} - {"idempotency_key", "starts_at"}
    given = {name: shaped[name] for name in names if name in shaped}
    texts = {name: str(value) for name, value in given.items() if value is not None and value is not False}
    texts["labels"] = job_form.pairs_text(job.labels)
    texts["callbacks"] = job_form.pairs_text(job.callbacks or {})
    texts["endpoint"] = job.endpoint
    texts["when"] = next(when for when, trigger in WHEN.items() if trigger is job.trigger)
    return texts | job_form.texts_of_input(job_form.schema_of(job.endpoint), job.input)
