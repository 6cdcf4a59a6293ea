"""`flask console link` of docs/how-to/console.md: a link that signs in once, for a key on standard input."""

import json

from flask import Flask

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.cases import each_case
from tests.integration.client import services
from tests.integration.command_line import flask_app
from tests.integration.console.visitor import Visitor


def test_link_signs_in_with_the_key_on_standard_input(app: Flask, database: Database) -> None:
    key = api_keys.create(database, "linked", [Scope.READ], None)
    url = services(app).settings.database_url
    made = flask_app(url, "console", "link", "--url", "https://jobs.example/", "--json", stdin=f"{key}\n")
    address, secret = json.loads(made.stdout)["link"].split("#")
    assert address == "https://jobs.example/console/sign-in"
    assert key not in made.output
    visitor = Visitor(app)
    assert visitor.send("/console/sign-in/link", {"link": secret}).status_code == 303
    assert "linked" in visitor.get("/console")


@each_case("presented", [b"te_1_x\n", b"\xff\xfet\0e\n", b""])
def test_link_needs_a_valid_key(app: Flask, database: Database, presented: bytes) -> None:
    refused = flask_app(services(app).settings.database_url, "console", "link", stdin=presented)
    assert refused.exit_code == 1
    assert "the API key is not valid; standard input must have one valid key" in refused.output


@each_case(
    "url",
    ["", "jobs.example", "ftp://jobs.example", "https://", "http://[", "http://a/?", "http://a/#b", "http://a:99999"],
)
def test_link_needs_an_address_that_a_browser_opens(app: Flask, database: Database, url: str) -> None:
    refused = flask_app(services(app).settings.database_url, "console", "link", "--url", url, stdin="te_1_x\n")
    assert refused.exit_code == 2
    assert "'--url': use http:// or https:// and a host" in refused.output
