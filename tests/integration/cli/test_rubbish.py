"""Commands with invalid input: each ends with one line, an exit status, and no traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.kernel.db import Database
from tests import rows
from tests.cases import each_case
from tests.integration.client import Api
from tests.integration.command_line import Cli
from tests.integration.registered import created, cron, register

ESCAPES = "[red]\x1b[31m\N{RIGHT-TO-LEFT OVERRIDE}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{bad", "Expecting property name"),
        ('{"a": 1, "a": 2}', "same key twice"),
        ("[" * 3000 + "]" * 3000, "nested deeper"),
        ('{"a": "\\u0000"}', "NUL"),
        (f"@{sys.executable}", "is not UTF-8"),
        ("@/nowhere", "cannot be read"),
    ],
)
def test_invalid_input_is_refused(cli: Cli, database: Database, given: str, message: str) -> None:
    rows.add_endpoint(database)
    refused = cli.run("endpoints", "test", "e", "--input", given, expect=2).stderr
    assert "--input" in refused
    assert message in refused


@each_case(
    "command",
    [
        *("verify --rate nan", "verify --rate inf", "status --watch --every nan", "executions tail --every nan"),
    ],
)
def test_number_that_is_not_finite_is_refused(cli: Cli, command: str) -> None:
    assert "is not a finite number" in cli.run(*command.split(), expect=2).stderr


def test_argument_that_is_not_utf8_is_refused(cli: Cli) -> None:
    for command in (("jobs", "list", "--name", "\udcff"), ("executions", "show", "\udcff"), ("jobs", "show", "\udcff")):
        assert "not UTF-8" in cli.run(*command, expect=2).stderr


@each_case(
    ("document", "message"),
    [
        ("configs: {a: &x {y: *x}}", "Circular"),
        (f"configs: {{a: {{x: {'[' * 2000}{']' * 2000}}}}}", "nested too deep"),
        ("configs: {a: {1: 2, '1': 3}}", "duplicate key"),
        ("", "is empty"),
        ("# all of it is gone", "is empty"),
        ("[]", "/: Must be an object."),
        (f"routes: [{'{pattern: x, queue: y}, ' * 201}]", "/routes: Must have a length of at most 200."),
        ('configs: {"\\e[31m": {}}', "/configs/\\x1b[31m"),
        ("endpoints: {e: {type: HTTP, spec: {url: 'http://x/', body: 1}}}", ": /endpoints/e/spec/body: Unknown field."),
    ],
)
def test_invalid_catalog_document_is_refused(cli: Cli, tmp_path: Path, document: str, message: str) -> None:
    (tmp_path / "catalog.yaml").write_text(document)
    refused = cli.run("catalog", "diff", str(tmp_path / "catalog.yaml"), "--delete", expect=1).stderr
    assert refused.startswith("Error: ")
    assert message in f": {refused.removeprefix('Error: ')}"
    assert refused.count("\n") == 1


def test_text_from_users_cannot_control_the_terminal(api: Api, cli: Cli) -> None:
    register(api)
    job = created(api, cron(name=ESCAPES, labels={"team": "b"}))
    commands = (
        ("jobs", "list"),
        ("jobs", "show", job["job_id"]),
        ("jobs", "show", ESCAPES),
    )
    for command in commands:
        output = cli.run(*command, expect=3 if ESCAPES in command else 0).output
        assert "[red]\\x1b[31m\\u202e" in output
        assert "\x1b" not in output


def test_ascii_terminal_gets_escape_sequences(api: Api, cli: Cli) -> None:
    register(api)
    created(api, cron(name="\N{SNOWMAN}"))
    assert r"\u2603" in cli.run("jobs", "list", charset="ascii").stdout


def test_full_disk_is_reported_as_the_error(cli: Cli) -> None:
    settings = {"TE_DATABASE_URL": cli.settings.database_url}
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "flask", "--app", "app", "jobs", "list"]
        done = subprocess.run(
            command, env=os.environ | settings, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "Error: the output: No space left on device\n")
