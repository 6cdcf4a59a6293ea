"""Rubbish in the query of any page is refused in words or ignored; it never fails a page or a part of it."""

import random
import re

from flask import Flask

from app.console.pages import all_pages
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.errors import InternalError
from tests.cases import Breaches, choice_of
from tests.console_sources import MODULES, TEMPLATES
from tests.console_story import Story
from tests.integration.console.visitor import Visitor

FIELDS = re.compile(
    r"""(?:text|choice|flag|whole|instant|many|json)\(\s*["'](\w+)["']|\bname="([\w:]+)"|\bui\.\w+\(\s*["'](\w+)["']"""
)
OTHERS = ("labels", "since", "status", "late_over", "uncertain", "job_id", "created_after", "until", "after", "cursor")
RUBBISH = (
    *("", "+", "x", "-1", "9" * 30, "%00", "%FF", "%F0%9F", "%ED%A0%80", "'%22%3Cb%3E", "a=b=c", "%3D", ",", "1e9999"),
    *("0001-01-01T00:00:00", "9999-12-31T23:59:59-14:00", "z" * 500, "99999999999d", "[", "1-a-", "true"),
)
MANY = 3  # fields with rubbish in one address


def named() -> list[str]:
    """Return the names of all fields that a page may read."""
    found = {
        name for path in (*MODULES, *TEMPLATES) for names in FIELDS.findall(path.read_text()) for name in names if name
    }
    return sorted(found | {*OTHERS})


def test_rubbish_fails_no_page(app: Flask, database: Database) -> None:
    story, admin, fields = Story(database), Visitor(app, Scope.ADMIN), named()
    places = {
        "execution_id": story.failed,
        "letter_id": story.letter,
        "name": "charge-card",
        "instant": "now",
        "kind": "configs",
    }
    paths = [f"/console{page.path}" for page in all_pages()]
    paths = [re.sub(r"<(\w+)>", lambda part: places.get(part[1], "x"), path) for path in paths]
    with Breaches() as breaches:
        for path, rubbish in choice_of([(path, text) for path in paths for text in RUBBISH], 6):
            query = "&".join(f"{name}={rubbish}" for name in random.sample(fields, MANY))
            with breaches.case(path, query):
                answer = admin.browser.get(f"{path}?{query}")
                assert answer.status_code < 500
                assert InternalError.summary() not in answer.get_data(as_text=True)
