"""*The same again…* of ended bulk operations and redrives: a preview of the same jobs, or no link."""

import re
from html import unescape
from typing import Any

import pytest

from app.features.bulk_jobs.store import BULK_OPERATIONS
from app.features.dead_letters.redrives import REDRIVES
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from tests.console_story import Story
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import created, cron, register

WALKS, BULK, REDRIVE = "/console/walks", "/console/do/post/bulk-operations", "/console/do/post/redrives"
CARRIED = ("action", "wanted", "parameters", "rate")


def ended(operator: Visitor, api: Api, path: str, body: dict[str, Any]) -> str:
    """Begin a walk by the API, stop it, and return its row."""
    begun = api.post(path, body)
    assert begun.status_code == 202, begun.json
    id_ = begun.json.get("operation_id") or begun.json["redrive_id"]
    page = operator.act(WALKS, f"/console/do/post{path}/{id_}/stop")
    return page.partition(f'<tr id="{id_}"')[2].partition("</tr>")[0]


def again(row: str) -> list[str]:
    return [unescape(each) for each in re.findall(r'<a href="([^"]+)">The same again…</a>', row)]


def filled(operator: Visitor, address: str, action: str = BULK) -> dict[str, str]:
    """Return the visible fields of the form that begins the previewed operation, as the page has filled them."""
    form = operator.get(address).partition(f'action="{action}"')[2].partition("</form>")[0]
    inputs = [each for each in re.findall(r"<input[^>]*>", form) if 'type="hidden"' not in each]
    ticked = [each for each in inputs if 'type="checkbox"' not in each or " checked" in each]
    named = [re.search(r'name="(\w+)".*value="([^"]*)"', each) for each in ticked]
    return {found[1]: unescape(found[2]) for found in named if found is not None}


def begun(database: Database) -> list[Any]:
    return [*BULK_OPERATIONS.page(database, PageRequest()).items][::-1]


@pytest.mark.parametrize("field", ["queue", "job_id", "created_after", "labels"])
def test_pause_of_a_filter_is_repeated_for_that_filter_only(
    operator: Visitor, api: Api, database: Database, field: str
) -> None:
    register(api)
    job = created(api, cron(name="wanted", queue="bulk", labels={"team": "a"}))
    created(api, cron(name="other", labels={"team": "b"}, idempotency_key="other"))
    after = job["created_at"]
    value = {"queue": "bulk", "job_id": job["job_id"], "created_after": after, "labels": {"team": "a"}}[field]
    row = ended(operator, api, "/bulk-operations", {"action": "pause", "wanted": {field: value}, "rate": 7})
    assert ('href="/console/jobs?' in row) is (field == "labels"), "the list of jobs would show other rows"
    (address,) = again(row)
    operator.act(address, BULK, **filled(operator, address))
    first, second = begun(database)
    assert {name: getattr(first, name) for name in CARRIED} == {name: getattr(second, name) for name in CARRIED}


@pytest.mark.parametrize(("address", "field"), [("enpoint=mail", "enpoint"), ("queue=+", "queue"), ("name=", "name")])
def test_pause_refuses_a_filter_that_it_would_leave_out(operator: Visitor, address: str, field: str) -> None:
    assert field in operator.get(f"/console/schedules/bulk?action=pause&{address}", 400)


@pytest.mark.parametrize("page", ["executions/bulk", "dead-letters/archive", "dead-letters/redrive", "schedules/bulk"])
def test_misspelt_filter_of_a_bulk_job_is_refused_with_the_name_that_was_meant(operator: Visitor, page: str) -> None:
    answer = unescape(operator.get(f"/console/{page}?enpoint=mail", 400))
    assert "enpoint" in answer
    assert "Did you mean 'endpoint'?" in answer


@pytest.mark.parametrize("page", ["executions/bulk", "dead-letters/archive", "dead-letters/redrive", "schedules/bulk"])
def test_empty_filter_of_a_bulk_job_is_refused(operator: Visitor, page: str) -> None:
    assert "Must have a value." in operator.get(f"/console/{page}?endpoint=", 400)


@pytest.mark.parametrize(
    "moved",
    [
        {"delay_seconds": 3600},
        {"delay_seconds": -60, "spread_seconds": 600},
        {"delay_seconds": 0, "spread_seconds": 600},
        {"spread_seconds": 600},
    ],
)
def test_rescheduling_is_repeated_with_its_times(
    operator: Visitor, api: Api, database: Database, moved: dict[str, int]
) -> None:
    Story(database)
    body = {"action": "reschedule", "wanted": {"endpoint": "send-mail"}, "rate": 7, **moved}
    (address,) = again(ended(operator, api, "/bulk-operations", body))
    operator.act(address, BULK, **filled(operator, address))
    first, second = begun(database)
    assert {name: getattr(first, name) for name in CARRIED} == {name: getattr(second, name) for name in CARRIED}


def test_rescheduling_to_an_instant_is_not_repeated(operator: Visitor, api: Api, database: Database) -> None:
    Story(database)
    body = {"action": "reschedule", "wanted": {"endpoint": "send-mail"}, "run_at": "2026-01-01T00:00:00Z"}
    assert again(ended(operator, api, "/bulk-operations", body)) == []


def test_filter_that_an_address_does_not_keep_is_not_repeated(operator: Visitor, api: Api) -> None:
    body = {"action": "cancel", "wanted": {"idempotency_key": " "}}
    assert again(ended(operator, api, "/bulk-operations", body)) == []


def test_archiving_is_repeated_at_its_rate(operator: Visitor, api: Api, database: Database) -> None:
    Story(database)
    body = {"action": "archive", "wanted": {"endpoint": "send-mail"}, "note": "known", "rate": 7}
    (address,) = again(ended(operator, api, "/bulk-operations", body))
    assert filled(operator, address)["rate"] == "7"


@pytest.mark.parametrize("trial", [{}, {"trial": 4, "least": 2}])
def test_redrive_is_repeated_with_its_endpoint_and_trial(
    operator: Visitor, api: Api, database: Database, trial: dict[str, int]
) -> None:
    Story(database)
    body = {"wanted": {"endpoint": "charge-card"}, "to_endpoint": "send-mail", "rate": 7, **trial}
    (address,) = again(ended(operator, api, "/redrives", body))
    operator.act(address, REDRIVE, **filled(operator, address, REDRIVE))
    second, first = REDRIVES.page(database, PageRequest()).items
    carried = ("wanted", "to_endpoint", "rate", "trial", "least")
    assert {name: getattr(first, name) for name in carried} == {name: getattr(second, name) for name in carried}
