"""Exports of the lists: each has the filter of its page."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from app.console.http.forms import query, refuse
from app.console.http.list_export import ListExport
from app.console.http.page_rendering import now
from app.console.pages.activity_page import audit_filter
from app.console.pages.address_filter import SINCE
from app.console.pages.execution_query import filter_of_address
from app.console.pages.jobs_page import wanted_jobs
from app.console.pages.letters_page import letter_filter
from app.console.pages.uncertain_page import uncertain_filter
from app.console.views.execution_lines import COLUMNS, values_of_execution
from app.features.dead_letters.api import DeadLetterSchema
from app.features.dead_letters.letter_list import page_of_letters
from app.kernel import audit
from app.kernel.audit import AuditEntry
from app.kernel.db.paging import ReadPage
from app.queue.ending.letters import DeadLetter
from app.queue.executions.execution_records import Execution
from app.queue.jobs.job_list import page_of_jobs
from app.queue.jobs.job_model import Job
from app.queue.reading.execution_list import page_of_executions
from app.queue.reading.uncertain_attempts import UncertainAttempt, page_of_uncertain
from app.web.audit_api import AuditEntrySchema
from app.web.executions.attempts_api import UncertainAttemptSchema
from app.web.executions.execution_schemas import ExecutionSchema
from app.web.jobs.answer_schemas import JobSchema
from app.web.services import services

_PATIENCE = 0.1  # seconds of a scan for rare executions


def _executions() -> ReadPage[Execution]:
    found = filter_of_address(now())
    _refuse(found.faults)
    wanted = replace(found.wanted, created_before=found.wanted.created_before or now())
    return partial(page_of_executions, services().database, wanted, seconds=_PATIENCE)


def _letters() -> ReadPage[DeadLetter]:
    _, wanted, faults = letter_filter(now())
    _refuse(faults)
    return partial(page_of_letters, services().database, wanted)


def _jobs() -> ReadPage[Job]:
    return partial(page_of_jobs, services().database, wanted_jobs())


def _uncertain() -> ReadPage[UncertainAttempt]:
    wanted = uncertain_filter()
    if SINCE in query() and wanted.created_after is None:
        refuse(SINCE, "Must be a duration, such as 2h or 7d.")
    return partial(page_of_uncertain, services().database, wanted)


def _audit() -> ReadPage[AuditEntry]:
    return partial(audit.page, services().database, audit_filter())


def _refuse(faults: Mapping[str, str]) -> None:
    for name, fault in faults.items():
        refuse(name, fault)


EXPORTS: tuple[ListExport[Any], ...] = (
    ListExport(
        name="executions",
        path="/executions",
        reads="GET /executions",
        prepare=_executions,
        shape=ExecutionSchema(exclude=("input",)),
        columns=COLUMNS,
        values=values_of_execution,
    ),
    ListExport(
        name="letters",
        path="/dead-letters",
        reads="GET /dead-letters",
        prepare=_letters,
        shape=DeadLetterSchema(),
    ),
    ListExport(name="jobs", path="/jobs", reads="GET /jobs", prepare=_jobs, shape=JobSchema()),
    ListExport(
        name="uncertain",
        path="/uncertain",
        reads="GET /attempts",
        prepare=_uncertain,
        shape=UncertainAttemptSchema(),
    ),
    ListExport(name="audit", path="/activity/audit", reads="GET /audit", prepare=_audit, shape=AuditEntrySchema()),
)
