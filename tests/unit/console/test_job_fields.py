"""Fields of a job in the console: each failure names the module or the template that lacks the field."""

from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import app.console
from app.console.pages import job_form, job_page, schedule_editor_page
from app.queue.jobs.job_model import Job
from app.schedule.timetable import Timetable
from app.web.jobs.inline_fields import InlineFields
from app.web.jobs.request_schemas import ChangedJobSchema, NewJobSchema
from schema.states import Trigger

TEMPLATES = Path(app.console.__file__).parent / "templates"
OF_ITS_OWN = {"endpoint", "trigger", "input"}
"""Fields that the page of a new job reads by itself."""
TYPED = {*job_form.PLAIN, *job_form.WHOLE, "labels", "callbacks", "fixed_delay"}
EDITED = TYPED & ChangedJobSchema().fields.keys() - {"starts_at", "callbacks"}
NOT_EMPTY = {"labels", "cron", "timezone", "every", "fixed_delay", "catch_up", "overlap"}
"""Fields of the editor with a value in each job that has them; no labels are an empty object."""
NOW = datetime(2026, 3, 15, tzinfo=UTC)


def test_form_reads_every_field_of_a_new_job() -> None:
    """If it fails, add the field to PLAIN or WHOLE in app.console.pages.job_form."""
    of_requests = NewJobSchema().fields.keys() - InlineFields().fields.keys()
    assert of_requests == TYPED | OF_ITS_OWN
    # A field that is in no form of any trigger would be dropped.
    shown = {name for trigger in Trigger for name in job_form.fields_of(trigger.value)}
    assert {*job_form.PLAIN, *job_form.WHOLE} == shown


def test_templates_show_every_field_of_the_form() -> None:
    """If it fails, add the field to the template."""
    shared = (TEMPLATES / "macro" / "job_form.html").read_text()
    pages = {
        "new_job.html": TYPED,
        "schedule_editor.html": EDITED,
    }
    for page, names in pages.items():
        text = (TEMPLATES / "page" / page).read_text() + shared
        assert [name for name in sorted(names) if f'"{name}"' not in text] == [], page


def test_editor_shows_the_stored_value_of_every_field() -> None:
    """If it fails, add the field to texts_of, in app.console.pages.schedule_editor_page: else saving removes it."""
    marks: dict[str, Any] = {field.name: "x" for field in fields(Job)} | {"labels": {"team": "a"}, "input": {}}
    values: dict[str, Any] = {field.name: "x" for field in fields(Timetable)} | {"ends_at": NOW, "every_ms": 1}
    job = Job(**marks | {"timetable": Timetable(**values)})
    assert schedule_editor_page.texts_of(job, None).keys() >= EDITED


def test_editor_removes_every_emptied_field() -> None:
    """If it fails, add the field to REMOVABLE, in app.console.pages.schedule_editor_page, or to NOT_EMPTY."""
    assert {*schedule_editor_page.REMOVABLE} == EDITED - NOT_EMPTY


def test_page_of_a_job_shows_changes_of_every_field() -> None:
    """If it fails, add the field to CHANGEABLE, in app.console.pages.job_page."""
    assert {*job_page.CHANGEABLE} - {"endpoint_version"} == ChangedJobSchema().fields.keys()
