"""Check of a payload spec's new schema against the newest inputs of the endpoints that use the spec."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select, union_all

from app.catalog.payload_validator import PayloadValidator
from app.kernel.db import Database, chunked_scan
from app.kernel.db.chunked_scan import ListIndex
from app.kernel.db.paging import Part
from app.kernel.errors import Detail
from app.kernel.formats import Unreadable
from app.queue.jobs import job_queries
from schema import tables

MAX_INPUTS, MAX_ENDPOINTS, MAX_FAILURES = 100, 50, 10
SECONDS = 2.0

_J, _E = tables.jobs.c, tables.endpoints.c


class FailedInput(NamedTuple):
    job_id: str
    endpoint: str
    created_at: datetime
    faults: Sequence[Detail]


class SpecCheckResult(NamedTuple):
    """Counts of the checked inputs, and the newest refused inputs.

    `is_complete` is False if endpoints or inputs were left out because of their number, their size or the time.
    """

    endpoints: int
    passed: int
    failed: int
    failures: Sequence[FailedInput]
    is_complete: bool

    @property
    def checked(self) -> int:
        return self.passed + self.failed


def check_inputs(database: Database, name: str, schema: Mapping[str, Any], seconds: float = SECONDS) -> SpecCheckResult:
    """Check the newest MAX_INPUTS inputs of the endpoints that use a payload spec; raises InvalidSchemaError."""
    from app.catalog.json_schema import check_schema  # noqa: PLC0415 - 30 modules that few processes need

    check_schema(schema)
    endpoints = _endpoints(database, name)
    wanted = _newest(database, endpoints[:MAX_ENDPOINTS])
    jobs = {job.job_id: job for job in job_queries.find_jobs(database, _fitting(database, wanted))}
    validator, until = PayloadValidator(schema), time.monotonic() + seconds
    passed, failures = 0, list[FailedInput]()
    # Pruned and unreadable jobs are not found.
    for job in (jobs[job_id] for job_id in wanted if job_id in jobs):
        if time.monotonic() >= until:
            break
        faults = _faults(validator, job.input)
        if faults:
            failures.append(FailedInput(job.job_id, job.endpoint, job.created_at, faults))
        passed += not faults
    is_complete = len(endpoints) <= MAX_ENDPOINTS and passed + len(failures) == len(wanted)
    return SpecCheckResult(len(endpoints), passed, len(failures), failures[:MAX_FAILURES], is_complete)


def _endpoints(database: Database, name: str) -> list[str]:
    uses = select(_E.name).where(_E.payload_spec_ref == name, _E.deleted_at.is_(None)).order_by(_E.name)
    return [row.name for row in database.fetch(uses.limit(MAX_ENDPOINTS + 1))]


def _newest(database: Database, endpoints: Sequence[str]) -> list[str]:
    """Return the newest jobs of all these endpoints, from the newest jobs of each."""
    if not endpoints:
        return []
    indexes = [ListIndex(_J.created_at, _J.job_id, (), {_J.endpoint: name}) for name in endpoints]
    everything = Part.between(None, None, None)
    found = chunked_scan.in_order(database, union_all(*(index.read(everything).limit(MAX_INPUTS) for index in indexes)))
    newest = sorted(((row.at, row.key) for row in found), reverse=True)
    return [key for _, key in newest[:MAX_INPUTS]]


def _fitting(database: Database, job_ids: Sequence[str]) -> Sequence[str]:
    """Return the first jobs whose inputs fit into a page."""
    if not job_ids:
        return []
    rows = database.fetch(select(_J.job_id, job_queries.SIZE).where(_J.job_id.in_(job_ids)))
    sizes = {row.job_id: row.size for row in rows}
    return job_ids[: job_queries.fitting([sizes.get(job_id, 0) for job_id in job_ids])]


def _faults(validator: PayloadValidator, input_: object) -> list[Detail]:
    if isinstance(input_, Unreadable):
        return [Detail(pointer="", message=f"The input cannot be read: {input_.why}.")]
    return validator.faults(input_)
