"""Weight of pages: scripts and style sheets that a first visit loads, as files and on the wire."""

import re

from flask import Flask

from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.integration.console.visitor import Visitor

MAX_BYTES, MAX_SENT = 150_000, 60_000
PATHS = "/console", "/console/history", "/console/executions"


def test_heaviest_pages_load_150_kb_of_which_60_are_sent(app: Flask, database: Database) -> None:
    visitor = Visitor(app, Scope.ADMIN)
    for path in PATHS:
        found = set(re.findall(r'(?:src|href)="(/console/static/[^"]+)"', visitor.get(path)))
        assert len(found) >= 5, found
        plain = [visitor.browser.get(each) for each in found]
        packed = [visitor.browser.get(each, headers={"Accept-Encoding": "gzip"}) for each in found]
        assert {answer.status_code for answer in (*plain, *packed)} == {200}
        sizes = [sum(len(answer.get_data()) for answer in answers) for answers in (plain, packed)]
        assert sizes[0] <= MAX_BYTES, (path, sizes)
        assert sizes[1] <= MAX_SENT, (path, sizes)
