"""The command `flask --app app verify`."""

import os
import signal
import subprocess
import sys
from contextlib import closing

import psycopg2
import pytest

from tests.cases import each_case
from tests.cleared import libpq_url
from tests.integration.command_line import flask_app

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]

VERIFY = [sys.executable, "-m", "flask", "--app", "app", "verify"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("TE_")}


def test_ctrl_c_ends_the_verification_cleanly_and_revokes_the_key(database_url: str) -> None:
    """Jobs are left unfinished in the given database, so the API keeps their endpoints, and the output says so."""
    with subprocess.Popen(
        [*VERIFY, "--duration", "1h"],
        stdout=subprocess.PIPE,
        env=CLEAN | {"TE_DATABASE_URL": database_url},
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        output = ""
        for line in running.stdout:
            # Send one Ctrl-C only: a second would interrupt the shutdown.
            if "creating jobs" in line and "creating jobs" not in output:
                running.send_signal(signal.SIGINT)
            output += line
        assert running.wait(60) == 130
    assert "all processes and servers are stopped" in output
    assert "Traceback" not in output
    assert "not removed: the endpoints: " in output
    assert left_in(database_url) == {"keys": 0, "schemas": 0}


def left_in(database_url: str) -> dict[str, int]:
    queries = {
        "keys": "SELECT count(*) FROM api_keys WHERE revoked_at IS NULL",
        "schemas": "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'verify%'",
    }
    found = {}
    with closing(psycopg2.connect(libpq_url(database_url))) as connection, connection.cursor() as cursor:
        for kind, query in queries.items():
            cursor.execute(query)
            found[kind] = cursor.fetchall()[0][0]
    return found


@each_case(
    ("options", "database_url", "words"),
    [
        (["--duration", "ten"], "", "use a number with a unit, such as 500ms, 10s"),
        (["--partition"], "postgresql://nobody@127.0.0.1:1/none", "need the PostgreSQL that verify starts itself"),
    ],
)
def test_wrong_option_is_a_short_error(options: list[str], database_url: str, words: str) -> None:
    done = flask_app(database_url, "verify", *options)
    assert done.exit_code == 2
    assert words in done.stderr


def test_verification_without_its_database_is_a_short_error() -> None:
    env = CLEAN | {"TE_DATABASE_URL": "postgresql://nobody:hunter2@127.0.0.1:1/none"}
    done = subprocess.run(VERIFY, env=env, text=True, capture_output=True, check=False, timeout=380)
    assert done.returncode == 1
    assert "Error: The database cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
