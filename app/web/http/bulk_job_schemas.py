"""Fields and operations that redrives and bulk operations share."""

from collections.abc import Mapping
from typing import Any, TypeVar

from marshmallow import Schema, ValidationError, fields, validate

from app.kernel.described_fields import described
from app.kernel.errors import ConflictError, NotFoundError
from app.queue.bulk.bulk_job import BulkJob
from app.queue.bulk.bulk_job_kind import MAX_RATE
from app.queue.bulk.bulk_job_runner import MAX_RUNNING
from app.queue.bulk.bulk_job_store import BulkJobStore
from app.web.http.pagination import PageQuery, Shape, page_answer, page_request, page_schema
from app.web.openapi.resource import Resource
from app.web.services import services
from schema.states import BulkJobStatus

W = TypeVar("W", bound=BulkJob)


def all_field(unfiltered: str, meant: str) -> fields.Boolean:
    """Return the field that confirms a filter without restrictions, `unfiltered`, which selects the rows `meant`."""
    text = f"must be `true` where {unfiltered}: confirms that {meant} are meant"
    return fields.Boolean(load_default=False, **described(text))


def rate_field(default: int) -> fields.Integer:
    return fields.Integer(
        strict=True,
        load_default=default,
        validate=validate.Range(1, MAX_RATE),
        **described("maximum per second", example=default),
    )


def waits_field() -> fields.Boolean:
    """Return the field that shows whether a bulk job waits for a scheduler."""
    return fields.Boolean(
        required=True,
        **described(
            "`RUNNING`, but no scheduler works on it: it has just begun, no scheduler runs, or more "
            f"than {MAX_RUNNING} are running, which take turns",
            example=False,
        ),
    )


def check_all(given: bool, *, narrows: bool, unfiltered: str, meant: str) -> None:
    """Raise ValidationError unless `all` is given exactly if the filter has no restrictions."""
    if not (narrows or given):
        raise ValidationError(
            f"Must be true, because {unfiltered}: confirm that {meant} are meant. Or add a filter.", "all"
        )
    if narrows and given:
        raise ValidationError("Must be false or absent, because `wanted` has a filter.", "all")


def add_operations(
    resource: Resource,
    path: str,
    bulk_jobs: BulkJobStore[W],
    *,
    schema: type[Schema],
    shape: Shape[W],
    missing: type[NotFoundError],
) -> None:
    """Register the operations that list, read, pause, resume and stop bulk jobs of a kind."""
    one, noun = f"{path}/<{bulk_jobs.key}>", bulk_jobs.noun

    def list_(query: dict[str, Any]) -> dict[str, Any]:
        return page_answer(bulk_jobs.page(services().database, page_request(query)), query, shape)

    def get(**path_parts: str) -> Mapping[str, Any]:
        return shape(bulk_jobs.get(services().database, path_parts[bulk_jobs.key]))

    list_.__doc__, get.__doc__ = f"List {noun}s, newest first.", f"Get a {noun} and its progress."
    resource.route("GET", path, query=PageQuery, returns=page_schema(schema))(list_)
    resource.route("GET", one, returns=schema, errors=[missing])(get)
    for verb, status, summary in (
        ("pause", BulkJobStatus.PAUSED, f"Pause a {noun}."),
        ("resume", BulkJobStatus.RUNNING, f"Resume a paused {noun}."),
        ("stop", BulkJobStatus.STOPPED, f"Stop a {noun} for good; its changes so far stay."),
    ):

        def change(status: BulkJobStatus = status, **path_parts: str) -> Mapping[str, Any]:
            return shape(bulk_jobs.change(services().database, path_parts[bulk_jobs.key], status))

        change.__name__, change.__doc__ = verb, summary
        resource.route("POST", f"{one}/{verb}", returns=schema, errors=[missing, ConflictError])(change)
