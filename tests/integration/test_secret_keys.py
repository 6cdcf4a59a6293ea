"""`flask secrets status` and `rotate`, run as operators run them."""

import json
from typing import Any

import pytest
from sqlalchemy import text

from app.catalog.crypto import SecretBox, generate_key, key_id
from app.catalog.named_table import SECRETS
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from tests.integration.command_line import flask_app

OLD, NEW = generate_key(), generate_key()


def run(url: str, command: str, keys: str, *options: str) -> Any:
    return flask_app(url, "secrets", command, *options, TE_SECRET_ENCRYPTION_KEY=keys)


@pytest.fixture
def stored(database: Database) -> Database:
    for name in ("a", "b", "c"):
        SECRETS.create(database, name, SecretBox.from_setting(OLD).encrypt(name), AuditedChange(SYSTEM))
    return database


def test_rotation_adds_the_new_key_then_re_encrypts_with_it(stored: Database, database_url: str) -> None:
    first = run(database_url, "status", f"{OLD},{NEW}")
    assert first.exit_code == 0
    assert first.stdout.splitlines() == [f"key {key_id(OLD)}: 3 secrets (encrypts)", f"key {key_id(NEW)}: 0 secrets"]
    refused = run(database_url, "rotate", f"{NEW},{OLD}")
    assert refused.exit_code == 2
    assert f"Encrypt 3 secrets with the key {key_id(NEW)}?" in refused.stderr
    rotated = run(database_url, "rotate", f"{NEW},{OLD}", "--yes")
    assert rotated.exit_code == 0
    assert rotated.stdout.splitlines() == [
        f"key {key_id(NEW)}: 0 secrets (encrypts)",
        f"key {key_id(OLD)}: 3 secrets",
        "3 secrets re-encrypted",
        f"key {key_id(NEW)}: 3 secrets (encrypts)",
        f"key {key_id(OLD)}: 0 secrets",
    ]
    assert run(database_url, "status", NEW).exit_code == 0
    # Without secrets to re-encrypt, the command does not ask for confirmation.
    again = json.loads(run(database_url, "rotate", NEW, "--json").stdout)
    assert again == {"encrypted_anew": 0, "keys": {key_id(NEW): 3}, "unreadable": []}
    assert OLD not in first.output + rotated.output
    assert NEW not in first.output + rotated.output


@pytest.mark.parametrize("command", ["status", "rotate"])
def test_secrets_that_no_key_decrypts_are_reported_as_an_error(
    stored: Database, database_url: str, command: str
) -> None:
    done = run(database_url, command, NEW)
    assert done.exit_code == 1
    assert "no key: 3 secrets (a, b, c)" in done.stdout
    assert "TE_SECRET_ENCRYPTION_KEY" in done.stderr


@pytest.mark.postgresql_only
def test_rotation_reports_a_secret_written_concurrently_with_the_old_key(stored: Database, database_url: str) -> None:
    """Simulate a web process with the keys in the old order, which still encrypts with the old key."""
    stored.fetch(
        text(
            "CREATE FUNCTION undo() RETURNS trigger AS $$ BEGIN RETURN CASE WHEN NEW.name = 'a' THEN OLD ELSE NEW END;"
            " END $$ LANGUAGE plpgsql"
        )
    )
    stored.fetch(text("CREATE TRIGGER undo BEFORE UPDATE ON secrets FOR EACH ROW EXECUTE FUNCTION undo()"))
    done = run(database_url, "rotate", f"{NEW},{OLD}", "--yes")
    assert done.exit_code == 1
    assert "run the command again" in done.stderr


@pytest.mark.parametrize("command", ["status", "rotate"])
def test_rotation_without_an_encryption_key_fails(database_url: str, command: str) -> None:
    done = run(database_url, command, "")
    assert done.exit_code == 1
    assert "TE_SECRET_ENCRYPTION_KEY" in done.stderr
