"""Foot of a page: the request of the API that answers with its values."""

import re
from html import unescape

import pytest
from flask import Flask

from app.kernel.access.api_keys import Scope
from tests.cases import each_case
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import register


@pytest.fixture
def reader(app: Flask, api: Api) -> Visitor:
    register(api, "charge")
    return Visitor(app, Scope.READ)


@each_case(
    ("path", "request_"),
    [
        ("/console/executions?status=FAILED&columns=traffic", "/executions?status=FAILED"),
        ("/console/executions?since=2h&endpoint=charge", "/executions?endpoint=charge&created_after=20"),
        ("/console/history?last=6h", "/stats/history?last=6h"),
        ("/console/endpoints/charge?old=1&new=1", "/endpoints/charge"),
        ("/console/endpoints?last=6h&sort=failed", "/stats/endpoints?"),
        ("/console/dead-letters?labels=a%3Db", "/dead-letters?labels=a%3Db"),
        ("/console/activity?all=on", ""),  # the API has no such filter
        ("/console/executions?nobody=1", ""),
        ("/console/time-zone", ""),
    ],
)
def test_page_has_the_request_that_answers_the_same(reader: Visitor, path: str, request_: str) -> None:
    found = re.findall(r'aria-label="This page as curl">curl -sS ([^ ]+)', reader.get(path))
    assert len(found) == bool(request_)
    assert all(unescape(each).strip("'").removeprefix("http://localhost").startswith(request_) for each in found)
