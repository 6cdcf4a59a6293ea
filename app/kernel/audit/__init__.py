"""Audit log: an entry for each change, with its actor and time, written in the transaction of the change.

The log holds hashes, never values. A secret is hashed as ciphertext, so that its value cannot be guessed.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from app.kernel.db import Database
from app.kernel.db.deletion import deletion
from app.kernel.db.paging import Page, PageRequest, newest_first, page_of
from app.kernel.db.rows import RowValue
from app.kernel.formats import canonical_json
from app.kernel.sql import statement
from schema import tables

_A = tables.audit_log.c

RECORD = statement(
    "audit.record",
    """
    INSERT INTO audit_log (audit_id, actor_id, actor_name, action, resource_type, resource, before_hash, after_hash,
                           request_id)
    VALUES (:audit_id, :actor_id, :actor_name, :action, :resource_type, :resource, :before_hash, :after_hash,
            :request_id)
    """,
)
FIND = statement("audit.find", "SELECT audit_id FROM audit_log WHERE audit_id = :audit_id")
PRUNE = deletion(
    "audit.prune",
    "audit_log",
    ["audit_id"],
    "occurred_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'",
    time="occurred_at",
)


class AuditAction(StrEnum):
    CREATE = "create"
    REPLACE = "replace"
    DELETE = "delete"
    REVOKE = "revoke"
    FLOW = "flow"  # queue, priority, limits, breaker or pause of an endpoint; pause of a queue
    DRAIN = "drain"  # of a worker process


class ResourceType(StrEnum):
    PAYLOAD_SPEC = "payload_spec"
    CONFIG = "config"
    SECRET = "secret"
    ENDPOINT = "endpoint"
    API_KEY = "api_key"
    ROUTES = "routes"
    QUEUE = "queue"
    WORKER = "worker"
    NOTIFICATION_RULE = "notification_rule"
    GRANT = "grant"  # of te_enqueue


class Actor(NamedTuple):
    """Author of a change: an API key with its name and id, or a user of the command line, without an id."""

    name: str
    actor_id: str | None = None
    request_id: str | None = None


# For changes without a request: fixtures and the development stack.
SYSTEM = Actor("system")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry(RowValue):
    audit_id: str
    actor_id: str | None
    actor_name: str
    action: AuditAction
    resource_type: ResourceType
    resource: str
    before_hash: str | None
    after_hash: str | None
    request_id: str | None
    occurred_at: datetime


class AuditFilter(NamedTuple):
    """Conditions on entries; None sets no condition."""

    actor: str | None = None
    action: AuditAction | None = None
    resource_type: ResourceType | None = None
    resource: str | None = None
    after: datetime | None = None
    before: datetime | None = None


def is_recorded(connection: Connection, audit_id: str) -> bool:
    return connection.execute(FIND, {"audit_id": audit_id}).first() is not None


def digest(value: Any) -> str | None:
    """Return the SHA-256 of a value as canonical JSON, or of ciphertext as it is; None for None."""
    if value is None:
        return None
    if not isinstance(value, bytes):
        value = canonical_json(value).encode()
    return hashlib.sha256(value).hexdigest()


def page(database: Database, wanted: AuditFilter, request: PageRequest) -> Page[AuditEntry]:
    query = select(*_A)
    if wanted.actor is not None:
        query = query.where((_A.actor_name == wanted.actor) | (_A.actor_id == wanted.actor))
    for name in ("action", "resource_type", "resource"):
        if (value := getattr(wanted, name)) is not None:
            query = query.where(_A[name] == str(value))
    if wanted.after is not None:
        query = query.where(_A.occurred_at >= wanted.after)
    if wanted.before is not None:
        query = query.where(_A.occurred_at < wanted.before)
    rows = database.fetch(newest_first(query, _A.occurred_at, _A.audit_id, request))
    return page_of(rows, "occurred_at", "audit_id", request, AuditEntry.from_row)
