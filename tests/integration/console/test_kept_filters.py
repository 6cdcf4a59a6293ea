"""Filters of a list that its form has no field for: *Filter* keeps them, so that the list never grows by it."""

from collections.abc import Sequence

import pytest
from flask import Flask

from app.console.pages import execution_query, letters_page
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.integration.console.visitor import Visitor

EXECUTIONS, LETTERS = "/console/executions", "/console/dead-letters"
VALUES = {
    "status": "FAILED",
    "uncertain": "true",
    "labels": "team=a",
    "late_over": "5s",
    **dict.fromkeys(("created_after", "scheduled_after", "failed_after"), "2026-01-01T00:00:00Z"),
    **dict.fromkeys(("created_before", "scheduled_before", "failed_before"), "2026-01-02T00:00:00Z"),
}
SELECTED = {"status", "uncertain"}


@pytest.fixture
def reader(app: Flask) -> Visitor:
    return Visitor(app, Scope.READ)


def form_of(reader: Visitor, address: str) -> str:
    return reader.get(address).partition('<form method="get" class="filters" role="search">')[2].partition("</form>")[0]


@pytest.mark.parametrize(
    ("path", "names"),
    [(EXECUTIONS, execution_query.NAMES), (LETTERS, letters_page.NAMES)],
    ids=["executions", "letters"],
)
def test_form_of_a_list_has_each_given_filter_once(reader: Visitor, path: str, names: Sequence[str]) -> None:
    for name in names:
        value = VALUES.get(name, "x")
        form = form_of(reader, f"{path}?{name}={value}")
        assert form.count(f'name="{name}"') == 1, name
        assert f'value="{value}"{" selected" if name in SELECTED else ""}>' in form.replace(' placeholder="', ">"), name


@pytest.mark.parametrize(
    ("query", "selected"),
    [
        ("status=QUEUED,RETRYING", 'value="QUEUED,RETRYING" selected>QUEUED or RETRYING</option>'),
        ("uncertain=yes", 'value="true" selected>'),
    ],
)
def test_choice_that_an_address_writes_in_another_way_is_kept(reader: Visitor, query: str, selected: str) -> None:
    assert selected in form_of(reader, f"{EXECUTIONS}?{query}")


def test_kept_filter_is_escaped(reader: Visitor) -> None:
    form = form_of(reader, f"{LETTERS}?group=%22%3E%3Cb%3E")
    assert 'name="group" value="&#34;&gt;&lt;b&gt;"' in form


@pytest.mark.parametrize(("path", "began"), [(EXECUTIONS, "created"), (LETTERS, "failed")])
def test_time_until_now_replaces_a_chosen_period(reader: Visitor, path: str, began: str) -> None:
    period = f"{began}_after=2026-01-01T00:00:00Z&{began}_before=2026-01-02T00:00:00Z"
    form = form_of(reader, f"{path}?{period}")
    assert form.count(f'name="{began}_') == 2
    typed = f"{path}?{period}&since=2h"
    assert f"{began}_" not in form_of(reader, typed)
    assert f"{began} before" not in reader.get(typed), "no tag of the list shows a period that does not hold"


def test_execution_of_the_last_hours_is_listed_after_a_period(reader: Visitor, database: Database) -> None:
    rows.add_endpoint(database)
    (created,) = rows.add_executions(database, 1)
    period = "created_after=2026-01-01T00:00:00Z&created_before=2026-01-02T00:00:00Z"
    assert f'id="{created}"' not in reader.get(f"{EXECUTIONS}?{period}")
    assert f'id="{created}"' in reader.get(f"{EXECUTIONS}?{period}&since=2h")
