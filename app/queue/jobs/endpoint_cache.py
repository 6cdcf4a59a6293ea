"""Endpoint cache for creating jobs; the statement that inserts a job detects a stale entry."""

import threading
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple, Self

from cachetools import LRUCache
from sqlalchemy import Connection, Row

from app.catalog import payload_validator
from app.catalog.endpoints.limits import key_placeholder
from app.catalog.payload_validator import PayloadValidator
from app.catalog.retry_policy import RetryPolicy
from app.catalog.templates.nodes import Placeholder
from app.kernel.db import Database
from app.kernel.db.hot import run_in
from app.kernel.errors import Detail, EndpointNotFoundError, InputValidationError, TemplateError
from app.kernel.formats import Unreadable
from app.kernel.sql import hot_statement
from app.kernel.unreadable import report
from schema.states import EndpointType

CACHE_SIZE = 2_000

LOAD = hot_statement(
    "jobs.target",
    """
    SELECT e.version, e.endpoint_type, e.retry_policy, e.limits, e.flow_revision, e.callbacks,
           p.schema_json, p.updated_at AS spec_updated_at
      FROM endpoints e LEFT JOIN payload_specs p ON p.name = e.payload_spec_ref
     WHERE e.name = :name AND e.deleted_at IS NULL
    """,
)


class CachedEndpoint(NamedTuple):
    """One version of an endpoint, with its payload spec and limit key, which can change within a version."""

    name: str
    version: int
    type: EndpointType
    max_attempts: int
    validator: PayloadValidator | None
    spec_updated_at: datetime | None
    flow_revision: int = 0
    limit_key: Placeholder | None = None
    callbacks: Mapping[str, str | None] | None = None
    max_age_ms: int | None = None

    @classmethod
    def of_row(cls, name: str, row: Row[Any]) -> Self:
        policy = RetryPolicy.in_effect(row.retry_policy, name)
        return cls(
            name=name,
            version=row.version,
            type=EndpointType(row.endpoint_type),
            max_attempts=policy.max_attempts,
            max_age_ms=policy.max_age_ms,
            validator=payload_validator.compiled(row.schema_json) if row.spec_updated_at is not None else None,
            spec_updated_at=row.spec_updated_at,
            flow_revision=row.flow_revision,
            limit_key=_limit_key(name, row.limits),
            callbacks=row.callbacks,
        )

    def faults(self, input_: object) -> list[Detail]:
        """Return the faults of a job's input; SQL outside this service may have stored an unreadable input."""
        if isinstance(input_, Unreadable):
            return [Detail(pointer="", message=f"The input cannot be read: {input_.why}; give another input.")]
        return self.validator.faults(input_) if self.validator is not None else []


def _limit_key(endpoint: str, limits: Any) -> Placeholder | None:
    """Return the placeholder of the limit key; None for limits that cannot be read, which workers do not apply."""
    try:
        return key_placeholder(limits)
    except (AttributeError, TypeError, TemplateError) as error:
        report(f"limits of endpoint {endpoint}", error)
        return None


def read_targets(connection: Connection, names: Collection[str]) -> Mapping[str, CachedEndpoint]:
    """Read the endpoints that still exist; the insertion of a job detects a later change."""
    found = {name: run_in(connection, LOAD, {"name": name}) for name in sorted(names)}
    return {name: CachedEndpoint.of_row(name, rows[0]) for name, rows in found.items() if rows}


class EndpointCache:
    """Endpoints by name; evicts the least recently used."""

    def __init__(self, database: Database, max_entries: int = CACHE_SIZE) -> None:
        self._database = database
        self._targets: LRUCache[str, CachedEndpoint] = LRUCache(max_entries)
        self._lock = threading.Lock()

    def accepting(self, name: str, input_: object) -> CachedEndpoint:
        """Return an endpoint that accepts the input, re-read before a refusal; raises as `checked` does."""
        with self._lock:
            target = self._targets.get(name)
        if target is not None and ((target.validator is None and type(input_) is dict) or not target.faults(input_)):
            return target
        return self.checked(name, input_)

    def checked(self, name: str, input_: object) -> CachedEndpoint:
        """Re-read an endpoint; raises EndpointNotFoundError, or InputValidationError if it refuses the input."""
        rows = self._database.fetch(LOAD, {"name": name})
        with self._lock:
            self._targets.pop(name, None)
            if not rows:
                raise EndpointNotFoundError.of(name)
            target = self._targets[name] = CachedEndpoint.of_row(name, rows[0])
        faults = target.faults(input_)
        if not faults:
            return target
        details = [Detail(pointer=f"/input{fault['pointer']}", message=fault["message"]) for fault in faults]
        first = details[0]
        raise InputValidationError(
            f"The input does not match the payload spec. {first['pointer']}: {first['message']}", details
        )
