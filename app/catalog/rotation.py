"""Rotation of the encryption key: stored secrets per key, and their encryption anew with the first key.

Which key a secret is under is found by trying the keys. A column would be cheaper to count, but while processes of an
earlier version write secrets without it, it would be wrong, and somebody would remove a key that is still in use.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row
from sqlalchemy.exc import SQLAlchemyError

from app.catalog.crypto import HOW_TO_READ, VARIABLE, SecretBox
from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.sql import statement

log = logging.getLogger(__name__)

BATCH = 20  # a secret may have 64 Ki characters, and CockroachDB reads messages of up to 16 MiB
MOST_NAMED = 10

PAGE = statement(
    "secrets.page",
    f"""
    SELECT name, encrypted_value, created_at, revision FROM secrets WHERE name > :after ORDER BY name LIMIT {BATCH}
    """,  # noqa: S608 - a constant of this module
)
# A secret that was replaced meanwhile, or deleted and created anew, is left alone. The revision stays, since the value
# does: workers may keep what they have cached, and clients their ETags.
REENCRYPT = statement(
    "secrets.reencrypt",
    """
    UPDATE secrets AS s SET encrypted_value = u.token
      FROM unnest(CAST(:names AS TEXT[]), CAST(:tokens AS BYTEA[]), CAST(:created AS TIMESTAMPTZ[]),
                  CAST(:revisions AS BIGINT[])) AS u (name, token, created_at, revision)
     WHERE s.name = u.name AND s.created_at = u.created_at AND s.revision = u.revision
    RETURNING s.name
    """,
)


@dataclass(frozen=True, slots=True)
class KeyUse:
    """How many secrets are under which key, by its id, and the names of those that none of the keys decrypts."""

    counts: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)


def key_use(database: Database, box: SecretBox | None) -> KeyUse:
    """Count the stored secrets under each key."""
    use = KeyUse()
    for page in _pages(database):
        for row in page:
            key = box.key_of(row.encrypted_value) if box is not None else None
            if key is None:
                use.unreadable.append(row.name)
            else:
                use.counts[key] += 1
    return use


def rotate(database: Database, box: SecretBox, done: Callable[[int], None] = lambda _: None) -> int:
    """Encrypt all secrets with the first key that are under another one, in batches; returns how many.

    `done` is told how many were looked at.

    It may run while everything else does, be cut off anywhere, and run again. What no key decrypts stays as it is.
    """
    changed = 0
    for page in _pages(database):
        changed += _rotate(database, box, page)
        done(len(page))
    return changed


def warn_of_unreadable(database: Database, box: SecretBox | None) -> None:
    """Log an error when secrets exist that this process cannot decrypt.

    It does not refuse to start: one damaged secret that nothing uses would otherwise stop the whole service.
    """
    try:
        names = key_use(database, box).unreadable
    except (UnavailableError, SQLAlchemyError) as error:
        log.warning("could not look whether all secrets can be decrypted: %s", explained(error))
        return
    if names:
        reason = f"{VARIABLE} is not set" if box is None else f"this process has the keys {', '.join(box.key_ids)}"
        log.error("%d secrets cannot be decrypted (%s); %s: %s", len(names), named(names), reason, HOW_TO_READ)


def named(names: Sequence[str]) -> str:
    """List the first names."""
    return ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")


def _pages(database: Database) -> Iterator[Sequence[Row[Any]]]:
    after = ""
    while page := database.fetch(PAGE, {"after": after}):
        yield page
        after = page[-1].name


def _rotate(database: Database, box: SecretBox, page: Sequence[Row[Any]]) -> int:
    old = [row for row in page if box.key_of(row.encrypted_value) not in (None, box.key_ids[0])]
    if not old:
        return 0
    params = {
        "names": [row.name for row in old],
        "tokens": [box.rotate(row.encrypted_value) for row in old],
        "created": [row.created_at for row in old],
        "revisions": [row.revision for row in old],
    }
    return len(database.fetch(REENCRYPT, params))
