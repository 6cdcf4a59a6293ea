"""Groups of dead letters, and changes since a failure."""

from typing import Any

import pytest
from sqlalchemy import text

from app.features.dead_letters.letter_groups import groups_of
from app.features.dead_letters.letter_list import LetterFilter, next_letters, page_of_letters
from app.kernel.db import Database
from app.kernel.db.chunked_scan import ChunkedRead
from app.kernel.db.paging import PageRequest
from app.queue.bulk.bulk_job import BEGINNING
from benchmarks.statement_costs import is_setting
from tests import rows
from tests.integration.client import Api
from tests.integration.registered import register
from tests.integration.statements import Statements
from tests.waiting import HUNG_SECONDS

TIMEOUT = {"error_type": "TIMEOUT", "message": "no answer in 5000 ms"}


def answered(status: int, order: int) -> dict[str, Any]:
    message = f"the endpoint answered {status} X for order {order}; expected: 200"
    return {"error_type": "HTTP_ERROR", "message": message}


def test_failures_are_grouped_by_fault_and_a_group_is_a_filter(api: Api, database: Database) -> None:
    register(api)
    refused = [rows.add_letter(database, **answered(422, number)) for number in range(3)]
    broken = [rows.add_letter(database, **answered(503, number)) for number in range(2)]
    late = rows.add_letter(database, **TIMEOUT)
    answer = api.get("/dead-letters/groups").json
    assert (answer["looked_at"], answer["is_complete"]) == (6, True)
    found = {(each["error_type"], each["status_code"]): each for each in answer["items"]}
    assert [each["count"] for each in answer["items"]] == [3, 2, 1], "the largest group first"
    assert found["HTTP_ERROR", 422]["letters"] == refused[::-1]
    assert found["TIMEOUT", None]["message"] == "no answer in # ms"
    assert found["TIMEOUT", None]["example"] == TIMEOUT["message"]
    group = found["HTTP_ERROR", 503]["group"]
    listed = api.get("/dead-letters", group=group).json["items"]
    assert {each["letter_id"] for each in listed} == {*broken}
    preview = api.post("/redrives/preview", {"wanted": {"group": group}}).json
    assert (preview["count"], {each["letter_id"] for each in preview["sample"]}) == (2, {*broken})
    archive = {"action": "archive", "wanted": {"group": group}, "note": "known"}
    assert api.post("/bulk-operations/preview", archive).json["count"] == 2
    assert api.get("/dead-letters/groups", error_type="TIMEOUT").json["items"][0]["letters"] == [late]


def test_groups_read_a_bounded_number_of_letters(api: Api, database: Database) -> None:
    register(api)
    for number in range(4):
        rows.add_letter(database, **answered(422, number))
    found = groups_of(database, LetterFilter(), most=3)
    assert (found.looked_at, found.is_complete, found.items[0].count) == (3, False, 3)


def test_groups_continue_behind_letters_that_failed_at_one_instant(api: Api, database: Database) -> None:
    register(api)
    for number in range(7):
        rows.add_letter(database, **answered(422, number))
    database.fetch(text("UPDATE dead_letters SET failed_at = '2026-01-01T00:00:00Z'"))
    found = [groups_of(database, LetterFilter(), most=3)]
    while found[-1].next is not None:
        found.append(groups_of(database, LetterFilter(), after=found[-1].next, most=3))
    assert [each.looked_at for each in found] == [3, 3, 1]


@pytest.mark.parametrize(
    "wanted", [LetterFilter(labels={"team": "nobody"}), LetterFilter(group="0" * 16)], ids=["labels", "group"]
)
def test_filters_without_a_match_read_a_bounded_number_of_letters(
    api: Api, database: Database, statements: Statements, wanted: LetterFilter
) -> None:
    """However much time there is."""
    register(api)
    for number in range(20):
        rows.add_letter(database, **answered(422, number))
    found = groups_of(database, wanted, most=3, seconds=HUNG_SECONDS)
    assert (found.looked_at, found.read, found.is_complete) == (0, 3, False)
    statements.clear()
    page = page_of_letters(database, wanted, PageRequest(), ChunkedRead(HUNG_SECONDS, size=2, chunks=3))
    assert len([each for each in statements.texts if not is_setting(each)]) == 6
    assert page.next is not None, "older letters were not read"


def test_pages_of_a_group_continue_behind_other_letters(api: Api, database: Database) -> None:
    register(api)
    mine = [rows.add_letter(database, **answered(422, 1)) for _ in range(3)]
    for _ in range(4):
        rows.add_letter(database, **TIMEOUT)
    group = groups_of(database, LetterFilter(error_type="HTTP_ERROR")).items[0].group
    wanted, request, found = LetterFilter(group=group), PageRequest(2), list[str]()
    while True:
        page = page_of_letters(database, wanted, request)
        found += [each.letter_id for each in page.items]
        if page.next is None:
            break
        request = PageRequest(2, page.next)
    assert found == mine[::-1]
    selected = [row.item.letter_id for row in next_letters(database, wanted, BEGINNING, 50) if row.item is not None]
    assert selected == mine


def test_verdict_after_a_later_failure(api: Api, database: Database) -> None:
    register(api)
    letter = rows.add_letter(database, **TIMEOUT)
    rows.add_letter(database, **TIMEOUT)
    found = api.get(f"/dead-letters/{letter}/since").json
    assert (found["changes"], found["succeeded"], found["failed"]) == ([], 0, 1)
    verdict = found["verdict"]
    assert verdict.startswith("Nothing"), verdict
    assert verdict.endswith("the cause is still there."), verdict


def test_changes_of_endpoint_config_and_secret_are_listed(api: Api, database: Database) -> None:
    assert api.post("/secrets", {"name": "key-1", "value": "hunter2"}).status_code == 201
    assert api.post("/configs", {"name": "pay", "values": {"a": 1}}).status_code == 201
    spec = {"url": "https://pay.example", "headers": {"X": "{{secret.key-1}}"}, "timeout_ms": 5000}
    register(api, spec=spec, config="pay")
    letter = rows.add_letter(database, **TIMEOUT)
    current = api.get("/endpoints/target")
    body = {"type": "HTTP", "spec": {**spec, "timeout_ms": 9000}, "config": "pay"}
    changed = api.put("/endpoints/target", body, headers={"If-Match": current.headers["ETag"]})
    assert changed.status_code == 200, changed.json
    for path, change in (("/secrets/key-1", {"value": "swordfish"}), ("/configs/pay", {"values": {"a": 2}})):
        etag = api.get(path).headers["ETag"]
        assert api.put(path, change, headers={"If-Match": etag}).status_code == 200
    answer = api.get(f"/dead-letters/{letter}/since")
    assert "hunter2" not in answer.get_data(as_text=True)
    assert "swordfish" not in answer.get_data(as_text=True)
    found = answer.json
    assert [(each["kind"], each["name"]) for each in found["changes"]] == [
        ("endpoint", "target"),
        ("config", "pay"),
        ("secret", "key-1"),
    ]
    change = found["changes"][0]
    assert (change["path"], change["before"], change["after"]) == ("spec/timeout_ms", 5000, 9000)
    assert "redrive it as a new job" in found["verdict"]
    api.post("/endpoints/target/pause")
    assert "is paused" in api.get(f"/dead-letters/{letter}/since").json["verdict"]


def test_change_of_a_type_or_to_null_is_a_change(api: Api, database: Database) -> None:
    spec = {"url": "https://pay.example", "timeout_ms": 5000}
    register(api, spec=spec | {"body_template": {"a": 1, "b": 2.0}})
    letter = rows.add_letter(database, **TIMEOUT)
    body = {"type": "HTTP", "spec": spec | {"body_template": {"a": True, "b": 2, "c": None}}}
    etag = api.get("/endpoints/target").headers["ETag"]
    assert api.put("/endpoints/target", body, headers={"If-Match": etag}).status_code == 200
    found = api.get(f"/dead-letters/{letter}/since").json
    changes = [(each["path"], each["before"], each["after"]) for each in found["changes"]]
    assert changes == [("spec/body_template/a", 1, True), ("spec/body_template/c", None, None)]
    assert changes[0][2] is True
    assert not found["verdict"].startswith("Nothing")


def test_unknown_letter_is_404(api: Api, database: Database) -> None:
    assert api.get("/dead-letters/att_unknown/since").status_code == 404
    database.fetch(text("SELECT 1"))
