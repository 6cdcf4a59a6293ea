"""Stored versions of an endpoint, with their authors; they stay after its deletion."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from app.catalog.endpoints.endpoint_rows import EndpointDefinition
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, page_of
from app.kernel.errors import EndpointNotFoundError, EndpointVersionNotFoundError
from app.kernel.sql import statement
from schema.states import EndpointType, KeepResponse

# The transaction that stores a version also writes its audit entry: both have the instant of the transaction.
_VERSIONS = """
    SELECT v.endpoint, v.version, v.endpoint_type, v.payload_spec_ref, v.config_ref, v.secret_refs, v.spec,
           v.retry_policy, v.keep_response, v.callbacks, v.created_at,
           (SELECT a.actor_name FROM audit_log AS a
             WHERE a.occurred_at = v.created_at AND a.resource_type = 'endpoint' AND a.resource = v.endpoint
               AND a.action IN ('create', 'replace')
             ORDER BY a.audit_id LIMIT 1) AS actor
      FROM endpoint_versions AS v
     WHERE v.endpoint = :name"""
PAGE = statement(
    "endpoint_versions.page",
    """{versions} AND (CAST(:before AS BIGINT) IS NULL OR v.version < CAST(:before AS BIGINT))
     ORDER BY v.version DESC LIMIT :limit""",
    versions=_VERSIONS,
)
GET = statement("endpoint_versions.get", "{versions} AND v.version = CAST(:version AS BIGINT)", versions=_VERSIONS)

MAX_DIGITS = 18  # of a version, so that it fits into BIGINT


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointVersion(EndpointDefinition):
    """A version; `actor` is the name of its author, None once the entry of the audit log was deleted."""

    version: int
    name: str
    secrets: Sequence[str]
    actor: str | None
    created_at: datetime


def page_of_versions(database: Database, name: str, wanted: PageRequest) -> Page[EndpointVersion]:
    """Read a page of the versions of an endpoint, newest first; raises EndpointNotFoundError if it never existed."""
    before = None if wanted.after is None else int(wanted.after.key)
    rows = database.fetch(PAGE, {"name": name, "before": before, "limit": wanted.limit + 1})
    if not rows and before is None:
        raise EndpointNotFoundError.of(name)
    return page_of(rows, "created_at", "version", wanted, _version_of)


def get_version(database: Database, name: str, version: str) -> EndpointVersion:
    """Read the version of a number in digits.

    Raises EndpointVersionNotFoundError, or EndpointNotFoundError if the endpoint never existed.
    """
    is_number = version.isascii() and version.isdigit() and len(version) <= MAX_DIGITS
    rows = database.fetch(GET, {"name": name, "version": int(version)}) if is_number else ()
    if not rows:
        page_of_versions(database, name, PageRequest(1))
        raise EndpointVersionNotFoundError.of(f"{name} v{version}")
    return _version_of(rows[0])


def _version_of(row: Row[Any]) -> EndpointVersion:
    return EndpointVersion(
        name=row.endpoint,
        version=row.version,
        type=EndpointType(row.endpoint_type),
        payload_spec=row.payload_spec_ref,
        config=row.config_ref,
        secrets=list(row.secret_refs),
        spec=row.spec,
        retry_policy=row.retry_policy,
        keep_response=KeepResponse(row.keep_response),
        callbacks=row.callbacks,
        actor=row.actor,
        created_at=row.created_at,
    )
