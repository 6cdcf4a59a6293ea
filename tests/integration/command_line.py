"""The program `flask`, as users call it."""

import os

import flask.cli
from click.testing import CliRunner, Result


def flask_app(url: str, *arguments: str, charset: str = "utf-8", **environment: str) -> Result:
    """Run it with `--app app` in this process: a new one would spend a second on imports each time."""
    settings: dict[str, str | None] = {"TE_DATABASE_URL": url, "TE_STARTUP_TIMEOUT_SEC": "1"} | environment
    # What Flask notes of itself in the environment, children of later tests must not find there.
    settings |= {"FLASK_RUN_FROM_CLI": os.environ.get("FLASK_RUN_FROM_CLI")}
    done = CliRunner(charset, env=settings).invoke(flask.cli.cli, ["--app", "app", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), "it would be told with a traceback"
    return done
