"""Rotation of the encryption key, on a real database: with concurrent writers, and interrupted at any point."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from app.catalog import rotation
from app.catalog.crypto import SecretBox, generate_key, key_id
from app.catalog.named_table import SECRETS
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database

OLD, NEW, LOST = generate_key(), generate_key(), generate_key()
OLD_BOX, BOTH, NEW_BOX = (SecretBox.from_setting(keys) for keys in (OLD, f"{NEW},{OLD}", NEW))
COUNT = 2 * rotation.BATCH + 1
NAMES = [f"s{number:03}" for number in range(COUNT)]


def put(database: Database, name: str, box: SecretBox, value: str) -> None:
    SECRETS.replace(database, name, box.encrypt(value), AuditedChange(SYSTEM))


@pytest.fixture
def many(database: Database) -> Database:
    """A database with more secrets than fit into two batches, all encrypted with the old key."""
    for name in NAMES:
        SECRETS.create(database, name, OLD_BOX.encrypt(f"value of {name}"), AuditedChange(SYSTEM))
    return database


def values(database: Database, box: SecretBox) -> dict[str, str]:
    stored = database.fetch(text("SELECT name, encrypted_value FROM secrets"))
    return {row.name: box.decrypt(row.encrypted_value) for row in stored}


EXPECTED = {name: f"value of {name}" for name in NAMES}


def test_rotation_moves_all_secrets_to_the_first_key_and_keeps_value_and_tag(many: Database) -> None:
    before = [SECRETS.get(many, name).tag for name in NAMES]
    assert rotation.key_use(many, BOTH).counts == {key_id(OLD): COUNT}
    assert rotation.rotate(many, BOTH) == COUNT
    assert rotation.key_use(many, BOTH).counts == {key_id(NEW): COUNT}
    assert values(many, NEW_BOX) == EXPECTED
    assert [SECRETS.get(many, name).tag for name in NAMES] == before
    assert rotation.rotate(many, BOTH) == 0, "no secret is left to rotate"


class Interrupted(Database):
    """A database that calls a function once, between the read and the write of one page of secrets.

    `page` is the number of this page, counted from 1.
    """

    def __init__(self, database: Database, before_write: Callable[[], None], page: int = 1) -> None:
        super().__init__(database.engine, database.fire_and_forget)
        self._before_write = before_write
        self._pages = page

    def fetch(self, statement: Any, params: Any = None, **options: Any) -> Any:
        self._pages -= statement is rotation.REENCRYPT
        if statement is rotation.REENCRYPT and self._pages == 0:
            self._before_write()
        return super().fetch(statement, params, **options)


def test_secret_replaced_during_a_rotation_keeps_its_new_value(many: Database) -> None:
    first = NAMES[0]

    interrupted = Interrupted(many, lambda: put(many, first, OLD_BOX, "newer"))
    assert rotation.rotate(interrupted, BOTH) == COUNT - 1
    assert values(many, BOTH) == EXPECTED | {first: "newer"}
    assert rotation.key_use(many, BOTH).counts == {key_id(NEW): COUNT - 1, key_id(OLD): 1}
    assert rotation.rotate(many, BOTH) == 1
    assert values(many, NEW_BOX) == EXPECTED | {first: "newer"}


def test_secret_deleted_and_created_again_during_a_rotation_keeps_its_new_value(many: Database) -> None:
    first = NAMES[0]

    def recreate() -> None:
        SECRETS.delete(many, first, AuditedChange(SYSTEM))
        SECRETS.create(many, first, OLD_BOX.encrypt("newer"), AuditedChange(SYSTEM))

    rotation.rotate(Interrupted(many, recreate), BOTH)
    assert values(many, BOTH) == EXPECTED | {first: "newer"}


def test_interrupted_rotation_is_finished_by_the_next_rotation(many: Database) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rotation.rotate(Interrupted(many, interrupt, page=2), BOTH)
    assert rotation.key_use(many, BOTH).counts == {key_id(NEW): rotation.BATCH, key_id(OLD): COUNT - rotation.BATCH}
    assert values(many, BOTH) == EXPECTED
    assert rotation.rotate(many, BOTH) == COUNT - rotation.BATCH
    assert values(many, NEW_BOX) == EXPECTED


def test_secret_of_an_unknown_key_is_reported_and_unchanged(many: Database, caplog: pytest.LogCaptureFixture) -> None:
    put(many, NAMES[1], SecretBox.from_setting(LOST), "lost")
    assert rotation.rotate(many, BOTH) == COUNT - 1
    use = rotation.key_use(many, BOTH)
    assert (use.counts, use.unreadable) == ({key_id(NEW): COUNT - 1}, [NAMES[1]])
    with_lost_key = SecretBox.from_setting(f"{NEW},{LOST}")
    assert values(many, with_lost_key)[NAMES[1]] == "lost"
    rotation.warn_of_unreadable(many, BOTH)
    (line,) = caplog.messages
    assert NAMES[1] in line
    assert key_id(NEW) in line
    assert NEW not in line


def test_process_without_a_key_warns_if_secrets_are_stored(many: Database, caplog: pytest.LogCaptureFixture) -> None:
    rotation.warn_of_unreadable(many, None)
    (line,) = caplog.messages
    assert f"secrets that cannot be decrypted ({COUNT})" in line
    assert "is not set" in line
    many.fetch(text("DELETE FROM secrets"))
    rotation.warn_of_unreadable(many, None)
    assert len(caplog.messages) == 1
