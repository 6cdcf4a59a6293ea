"""Rotation of the encryption key: count the stored secrets per key, and re-encrypt them with the first key.

The key of a secret is found by trying all keys. A column would be cheaper, but wrong while processes of an earlier
version write secrets without it; an operator could then remove a key that is still in use.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row
from sqlalchemy.exc import SQLAlchemyError

from app.catalog.crypto import HOW_TO_READ, VARIABLE, SecretBox
from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Counted, uncounted
from app.kernel.sql import statement

log = logging.getLogger(__name__)

BATCH = 20  # a secret may have 64 Ki characters, and CockroachDB reads messages of up to 16 MiB
MAX_NAMED = 10

PAGE = statement(
    "secrets.page",
    """
    SELECT name, encrypted_value, created_at, revision FROM secrets WHERE name > :after ORDER BY name LIMIT {batch}
    """,
    batch=BATCH,
)
# Secrets that were replaced or recreated concurrently are skipped. The revision stays, since the value stays: caches of
# workers and ETags of clients remain valid.
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
    """Number of secrets per key id, and the names of secrets that no key decrypts."""

    counts: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)


def key_use(database: Database, box: SecretBox | None) -> KeyUse:
    use = KeyUse()
    for page in _pages(database):
        for row in page:
            key = box.key_of(row.encrypted_value) if box is not None else None
            if key is None:
                use.unreadable.append(row.name)
            else:
                use.counts[key] += 1
    return use


def rotate(database: Database, box: SecretBox, done: Counted = uncounted) -> int:
    """Re-encrypt secrets of other keys with the first key, in batches; return their number.

    Calls `done` with the number of secrets read in each batch. Safe to run at any time, to interrupt and to repeat.
    Secrets that no key decrypts stay unchanged.
    """
    changed = 0
    for page in _pages(database):
        old = [row for row in page if box.key_of(row.encrypted_value) not in (None, box.key_ids[0])]
        params = {
            "names": [row.name for row in old],
            "tokens": [box.rotate(row.encrypted_value) for row in old],
            "created": [row.created_at for row in old],
            "revisions": [row.revision for row in old],
        }
        changed += len(database.fetch(REENCRYPT, params)) if old else 0
        done(len(page))
    return changed


def warn_of_unreadable(database: Database, box: SecretBox | None) -> None:
    """Log an error when secrets exist that this process cannot decrypt.

    The process starts all the same: one damaged, unused secret must not stop the whole service.
    """
    try:
        names = key_use(database, box).unreadable
    except (UnavailableError, SQLAlchemyError) as error:
        log.warning(
            "could not check whether all secrets can be decrypted: %s; starting without the check", explained(error)
        )
        return
    if names:
        reason = f"{VARIABLE} is not set" if box is None else f"this process has the keys {', '.join(box.key_ids)}"
        log.error("secrets that cannot be decrypted (%d): %s; %s; %s", len(names), named(names), reason, HOW_TO_READ)


def named(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMED]) + (" and more" if len(names) > MAX_NAMED else "")


def _pages(database: Database) -> Iterator[Sequence[Row[Any]]]:
    after = ""
    while page := database.fetch(PAGE, {"after": after}):
        yield page
        after = page[-1].name
