"""Fixtures of the commands that look at what the service does and steer it."""

import json
from typing import Any

import pytest
from click.testing import Result

from tests.integration.client import Api, services
from tests.integration.command_line import flask_app


class Cli:
    """The program `flask`, on the database of a client of the API."""

    def __init__(self, api: Api) -> None:
        self.settings = services(api.app).settings

    def run(self, *arguments: str, expect: int = 0, **environment: str) -> Result:
        key = {"TE_SECRET_ENCRYPTION_KEY": self.settings.secret_encryption_key}
        done = flask_app(self.settings.database_url, *arguments, **key | environment)
        assert done.exit_code == expect, done.output
        return done

    def json(self, *arguments: str, expect: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", expect=expect).stdout)


@pytest.fixture
def cli(api: Api) -> Cli:
    return Cli(api)
