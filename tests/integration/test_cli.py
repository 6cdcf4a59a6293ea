"""Commands of the program `flask --app app`, run as users run them."""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from app.kernel.config import Settings
from tests.cases import each_case
from tests.integration.client import Api, problem, running
from tests.integration.command_line import Cli, flask_app

ROOT = Path(__file__).parents[2]


def test_key_is_created_used_and_revoked_on_a_new_database(empty_database_url: str) -> None:
    url = empty_database_url
    assert "not migrated" in flask_app(url, "db", "current").stdout
    early = flask_app(url, "api-keys", "create", "ci", "--scopes", "admin")
    assert early.exit_code != 0
    assert "db upgrade" in early.stderr
    for _ in range(2):
        assert flask_app(url, "db", "upgrade").exit_code == 0
    assert flask_app(url, "api-keys", "create", "x", "--scopes", "read", "--json").stdout.count('"te_') == 1
    made = flask_app(url, "api-keys", "create", "ci", "--scopes", "read,jobs:write:a-*", "--expires", "90d")
    assert made.exit_code == 0, made.stderr
    assert re.fullmatch(r"te_[0-9a-f]{16}_[0-9a-f]{48}\n", made.stdout)
    key = made.stdout.strip()

    with running(Settings(database_url=url)) as app:
        assert Api(app, key).get("/jobs").status_code == 200
        problem(Api(app, key).post("/configs"), 403, "FORBIDDEN")

    listed = flask_app(url, "api-keys", "list").stdout
    key_id = key.split("_")[1]
    (line,) = [line for line in listed.splitlines() if key_id in line]
    assert line.split()[1:3] == ["active", "read,jobs:write:a-*"]
    assert key.split("_")[2] not in listed

    (listed_key,) = json.loads(flask_app(url, "api-keys", "list", "ci", "--json").stdout)["items"]
    assert (listed_key["key_id"], listed_key["name"], listed_key["state"], listed_key["scopes"]) == (
        key_id,
        "ci",
        "active",
        ["read", "jobs:write:a-*"],
    )
    current = json.loads(flask_app(url, "db", "current", "--json").stdout)
    assert current["revision"] == current["newest"]

    for prefix, expected in (("ci", 1), (key_id[:6], 1), (key[:9], 1), (key, 1), ("nope", 0), ("i", 0)):
        assert flask_app(url, "api-keys", "list", prefix).stdout.count(key_id) == expected, prefix

    refused = flask_app(url, "api-keys", "revoke", key)
    assert (refused.exit_code, key in refused.output) == (2, False)
    assert f"Revoke the key 'ci' ({key_id})" in refused.stderr
    done = flask_app(url, "api-keys", "revoke", key_id, "--yes", "--json")
    assert json.loads(done.stdout) == {"key_id": key_id, "name": "ci"}
    assert "revoked" in flask_app(url, "api-keys", "list").stdout
    with running(Settings(database_url=url)) as app:
        problem(Api(app, key).get("/jobs"), 401, "UNAUTHORIZED")


@each_case(
    ("arguments", "message"),
    [
        (["api-keys", "create", "x"], "--scopes"),
        (["api-keys", "create", "x", "--scopes", "root"], "jobs:write"),
        (["api-keys", "create", "x", "--scopes", "jobs:write:Mail"], "jobs:write:mail-*"),
        (["api-keys", "create", "x", "--scopes", ""], "scope"),
        (["api-keys", "create", "x", "--scopes", "read", "--expires", "soon"], "90d"),
        (["api-keys", "create", "x", "--scopes", "read", "--expires", "2020-01-01T00:00:00Z"], "future"),
        (["api-keys", "create", "x", "--scopes", "read", "--expires", "0d"], "future"),
        (["api-keys", "create", "x", "--scopes", "read", "--expires", "999999999999d"], "future"),
        (["api-keys", "create", "", "--scopes", "read"], "name"),
        (["api-keys", "revoke", "nope"], "nope"),
    ],
)
def test_wrong_argument_gives_an_error_without_a_traceback(
    database_url: str, arguments: list[str], message: str
) -> None:
    done = flask_app(database_url, *arguments)
    assert done.exit_code != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"TE_DATABASE_URL": ""}, "TE_DATABASE_URL is not set"),
        ({"TE_DATABASE_URL": "mysql://u:hunter2@h/d"}, "not supported"),
        ({"TE_WEB_WORKERS": "many"}, "TE_WEB_WORKERS"),
        ({"TE_SECRET_ENCRYPTION_KEY": "hunter2"}, "TE_SECRET_ENCRYPTION_KEY"),
    ],
)
def test_wrong_setting_gives_an_error_without_a_traceback(
    database_url: str, environment: dict[str, str], message: str
) -> None:
    done = flask_app(database_url, "db", "current", **environment)
    assert done.exit_code != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


def test_help_needs_no_settings() -> None:
    """Use a new process, which shows that the module is found and that its exit is clean."""
    done = subprocess.run(
        [sys.executable, "-m", "flask", "--app", "app", "--help"],
        cwd=ROOT,
        env=os.environ | {"TE_DATABASE_URL": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert {"api-keys", "db", "secrets", "verify"} <= {
        line.split()[0] for line in done.stdout.splitlines() if line.strip()
    }
    assert done.stderr == ""
    assert "...\n" not in done.stdout.partition("Commands:")[2], "each summary is whole"
    misspelt = flask_app("", "executoins", "list")
    assert (misspelt.exit_code, "no such command 'executoins'. Did you mean 'executions'?" in misspelt.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize("command", [["db", "upgrade"], ["db", "current"], ["api-keys", "list"]])
def test_unreachable_database_gives_the_reason_without_a_traceback(command: list[str]) -> None:
    done = flask_app("postgresql://nobody:hunter2@127.0.0.1:1/none", *command)
    assert done.exit_code != 0
    assert "cannot be reached" in done.stderr.splitlines()[-1]
    assert "Connection refused" in done.stderr.splitlines()[-1], "reason given by the driver"
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


def test_encryption_key_is_generated_without_a_database_or_a_valid_key() -> None:
    Fernet(flask_app("", "secrets", "generate-key", TE_SECRET_ENCRYPTION_KEY="broken").stdout.strip())


def test_command_in_this_process_leaves_no_thread(cli: Cli) -> None:
    """A thread per command would slow down all later tests of a session."""
    before = threading.enumerate()
    cli.run("jobs", "send", "https://shop.example/paid")
    assert set(threading.enumerate()) <= set(before)
