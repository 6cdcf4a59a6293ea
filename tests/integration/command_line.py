"""The program `flask`, run as users run it."""

import json
import os
from contextlib import closing
from typing import Any

import flask.cli
from click.testing import CliRunner, Result
from flask import Flask

from app.web.services import EXTENSION, Services
from tests.integration.client import Api, services


class _Script(flask.cli.ScriptInfo):
    """Application of one command."""

    _app: Flask | None = None

    def load_app(self) -> Flask:
        self._app = super().load_app()
        return self._app

    def close(self) -> None:
        """End the threads and connections of the application, which the end of a process would do.

        They would slow down all later tests, and no test could get the database again.
        """
        opened = self._app and self._app.extensions.get(EXTENSION)
        if isinstance(opened, Services):  # else the error of a setting
            opened.notifier.stop()  # first, because its thread connects
            opened.database.close()


def flask_app(
    url: str, *arguments: str, charset: str = "utf-8", app: str = "app", stdin: str | bytes = "", **environment: str
) -> Result:
    """Run `flask --app …` in this process: a new process would spend a second on imports each time."""
    settings: dict[str, str | None] = {"TE_DATABASE_URL": url, "TE_STARTUP_TIMEOUT_SEC": "1"} | environment
    # Flask sets FLASK_RUN_FROM_CLI. CliRunner restores the variable, so that child processes of later tests lack it.
    settings |= {"FLASK_RUN_FROM_CLI": os.environ.get("FLASK_RUN_FROM_CLI")}
    with closing(_Script()) as script:
        runner = CliRunner(charset, env=settings)
        done = runner.invoke(flask.cli.cli, ["--app", app, *arguments], input=stdin, obj=script)
    assert done.exception is None or isinstance(done.exception, SystemExit), "the user would get a traceback"
    return done


class Cli:
    """The program `flask` on the database of an API client."""

    def __init__(self, api: Api) -> None:
        self.settings = services(api.app).settings

    def run(self, *arguments: str, expect: int = 0, **environment: str) -> Result:
        key = {"TE_SECRET_ENCRYPTION_KEY": self.settings.secret_encryption_key}
        done = flask_app(self.settings.database_url, *arguments, **key | environment)
        assert done.exit_code == expect, done.output
        return done

    def json(self, *arguments: str, expect: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", expect=expect).stdout)


SHORT_RECLAIM_INTERVAL = {"TE_RECLAIM_INTERVAL_SEC": "0.01"}


def doctor_findings(cli: Cli, *options: str, expect: int = 1, **environment: str) -> dict[str, dict[str, Any]]:
    """Run `flask doctor` and return its findings by problem code."""
    found = json.loads(
        cli.run("doctor", "--json", *options, expect=expect, **SHORT_RECLAIM_INTERVAL | environment).stdout
    )["findings"]
    return {each["problem"]: each for each in found}
