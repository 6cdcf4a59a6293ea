"""Stored API keys: create, list, revoke.

Only the SHA-256 of a key is stored; its secret is 192 random bits, so neither salt nor stretching is needed.
"""

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row

from app.kernel.audit import SYSTEM, Actor, AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, page_of
from app.kernel.sql import statement
from schema.job_bounds import ACTOR_QUEUE_PATTERN, NAME_PATTERN

CREATE = statement(
    "api_keys.create",
    """
    INSERT INTO api_keys (key_id, name, key_hash, scopes, expires_at)
    VALUES (:key_id, :name, :key_hash, CAST(:scopes AS JSONB), CAST(:expires_at AS TIMESTAMPTZ))
    RETURNING key_id, name, scopes, expires_at
    """,
)
_STORED = """
    SELECT key_id, name, scopes, created_at, expires_at, last_used_at, revoked_at,
           expires_at IS NOT NULL AND expires_at <= now() AS expired
      FROM api_keys"""
LIST = statement("api_keys.list", "{stored} ORDER BY created_at, key_id", stored=_STORED)
PAGE = statement(
    "api_keys.page",
    """{stored}
     WHERE CAST(:at AS TIMESTAMPTZ) IS NULL
        OR (created_at, key_id) < (CAST(:at AS TIMESTAMPTZ), CAST(:key AS TEXT))
     ORDER BY created_at DESC, key_id DESC LIMIT :limit""",
    stored=_STORED,
)
LOCK = statement(
    "api_keys.lock",
    "SELECT key_id, name, scopes, expires_at, revoked_at FROM api_keys WHERE key_id = :key_id FOR UPDATE",
)
REVOKE = statement(
    "api_keys.revoke",
    "UPDATE api_keys SET revoked_at = now() WHERE key_id = :key_id AND revoked_at IS NULL RETURNING key_id",
)


class Scope(StrEnum):
    """A permission of a key; ADMIN includes all permissions.

    JOBS_WRITE creates jobs for registered endpoints, JOBS_SEND jobs with a URL. ACTORS_WORK runs actors.
    """

    ADMIN = "admin"
    ACTORS_WORK = "actors:work"
    JOBS_WRITE = "jobs:write"
    JOBS_SEND = "jobs:send"
    READ = "read"


CREATE_PREFIX = f"{Scope.JOBS_WRITE}:"
"""Prefix of a scope that only creates jobs of the endpoints with names that match the pattern behind the prefix."""
WORK_PREFIX = f"{Scope.ACTORS_WORK}:"
"""Prefix of a scope that only runs actors of the Dramatiq queues that match the pattern behind the prefix."""
_PATTERNS = {CREATE_PREFIX: NAME_PATTERN, WORK_PREFIX: ACTOR_QUEUE_PATTERN}


def scope_of(text: str) -> str:
    """Return a scope, which is a permission or a permission with a pattern; raises ValueError."""
    for prefix, pattern in _PATTERNS.items():
        if text.startswith(prefix) and pattern.fullmatch(text.removeprefix(prefix)):
            return text
    return Scope(text)


class KeyState(StrEnum):
    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


def is_valid(key: str) -> str:
    """Return the SQL condition that a row of `api_keys` is neither revoked nor expired."""
    return f"{key}.revoked_at IS NULL AND ({key}.expires_at IS NULL OR {key}.expires_at > now())"


@dataclass(frozen=True, slots=True)
class StoredKey:
    key_id: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    state: KeyState


def create(
    database: Database, name: str, scopes: Sequence[str], expires_at: datetime | None, *, by: Actor = SYSTEM
) -> str:
    """Create a key and return it; only its hash is stored."""
    key_id = secrets.token_hex(8)
    key = f"te_{key_id}_{secrets.token_hex(24)}"
    params = {"key_id": key_id, "name": name, "key_hash": hash_of(key), "scopes": json.dumps(scopes)}
    change = AuditedChange(by)

    def body(connection: Connection) -> str:
        row = connection.execute(CREATE, params | {"expires_at": expires_at}).one()
        _note(connection, change, AuditAction.CREATE, row, after=_content(row))
        return key

    return change.make(database, body, default=key)


def list_keys(database: Database, prefix: str = "") -> list[StoredKey]:
    """Read the keys whose name or id begins with `prefix`, or with the id in `prefix`; oldest first."""
    return [
        _stored(row)
        for row in database.fetch(LIST)
        if row.name.startswith(prefix) or row.key_id.startswith(id_in(prefix))
    ]


def page(database: Database, wanted: PageRequest) -> Page[StoredKey]:
    """Read a page of the keys, newest first."""
    return page_of(database.fetch(PAGE, wanted.bounds), "created_at", "key_id", wanted, _stored)


def revoke(database: Database, key_id: str, *, by: Actor = SYSTEM) -> str | None:
    """Revoke a key permanently and return its name; None if the key does not exist."""
    change = AuditedChange(by)

    def body(connection: Connection) -> str | None:
        row = connection.execute(LOCK, {"key_id": key_id}).first()
        if row is None:
            return None
        if connection.execute(REVOKE, {"key_id": key_id}).first() is not None:
            _note(connection, change, AuditAction.REVOKE, row, before=_content(row))
        return str(row.name)

    return change.make(database, body, again=body)


def id_in(text: str) -> str:
    """Return the id in a key or in the first characters of a key."""
    return text.removeprefix("te_").partition("_")[0]


def hash_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _stored(row: Row[Any]) -> StoredKey:
    is_over = KeyState.EXPIRED if row.expired else KeyState.ACTIVE
    return StoredKey(
        key_id=row.key_id,
        name=row.name,
        scopes=tuple(row.scopes) if isinstance(row.scopes, list) else (),
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        state=is_over if row.revoked_at is None else KeyState.REVOKED,
    )


def _note(connection: Connection, change: AuditedChange, action: AuditAction, row: Row[Any], **states: Any) -> None:
    change.record(connection, action, ResourceType.API_KEY, row.key_id, **states)


def _content(row: Row[Any]) -> dict[str, Any]:
    return {"name": row.name, "scopes": row.scopes, "expires_at": row.expires_at and row.expires_at.isoformat()}
