"""Breakers in the API: list, details, events, and manual closing."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.features.breakers import store as breakers_store
from app.features.breakers.rules import Counted, Reason, StoredBreaker, Transition
from app.kernel.db import Database
from schema.states import BreakerState
from tests import rows
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem

TARGET = "https:api.example.com:443"


def items(api: Api, path: str, **query: Any) -> list[dict[str, Any]]:
    response = api.get(path, **query)
    assert response.status_code == 200, response.get_data(as_text=True)
    found: list[dict[str, Any]] = response.get_json()["items"]
    return found


@pytest.fixture
def opened(database: Database) -> str:
    """Open a breaker as a worker does, and return its target."""
    endpoints = [(TARGET, "send-mail"), (TARGET, "remind")]
    breakers_store.publish(database, {TARGET: 60_000}, [Counted(TARGET, 1, "remind", 4, 6)], endpoints)
    transition = Transition(BreakerState.OPEN, Reason.FAILURES, 30_000, 6, 10)
    assert breakers_store.change(database, StoredBreaker(TARGET), transition, "wrk_1") is not None
    return TARGET


def test_open_breaker_is_shown_with_its_counts(api: Api, opened: str) -> None:
    shown = api.get(f"/breakers/{opened}").get_json()
    assert {name: shown[name] for name in ("target", "state", "reason", "failed", "results", "endpoints")} == {
        "target": TARGET,
        "state": "open",
        "reason": "FAILURES",
        "failed": 6,
        "results": 10,
        "endpoints": ["remind", "send-mail"],
    }
    assert shown["open_until"] > shown["changed_at"]
    assert items(api, "/breakers") == items(api, "/breakers", state="open") == [shown]
    assert items(api, "/breakers", state="closed") == items(api, "/breakers", state="half_open") == []
    (event,) = items(api, f"/breakers/{opened}/events")
    assert event | {"event_id": "", "occurred_at": ""} == {
        "event_id": "",
        "target": TARGET,
        "from_state": "closed",
        "to_state": "open",
        "reason": "FAILURES",
        "actor": "wrk_1",
        "open_until": shown["open_until"],
        "occurred_at": "",
    }


def test_manual_close_is_an_event_with_its_actor(api: Api, database: Database, opened: str) -> None:
    for _ in range(2):  # a repeated close adds no event
        closed = api.post(f"/breakers/{opened}/close")
        assert closed.status_code == 200
        assert (closed.get_json()["state"], closed.get_json()["open_until"]) == ("closed", None)
    assert [(event["to_state"], event["reason"]) for event in items(api, f"/breakers/{opened}/events")] == [
        ("closed", "CLOSED_BY_HAND"),
        ("open", "FAILURES"),
    ]
    (actor,) = {event["actor"] for event in items(api, f"/breakers/{opened}/events") if event["to_state"] == "closed"}
    assert not actor.startswith("wrk_")
    # Closing resets the counts of failures.
    assert not database.fetch(text("SELECT 1 FROM breaker_counts"))
    assert breakers_store.of_endpoint(database, "remind") == []
    assert not any(breakers_store.count_by_state(database).values())


def test_events_remain_after_their_breaker_is_deleted(api: Api, database: Database, opened: str) -> None:
    database.fetch(text("DELETE FROM breakers RETURNING 1"))
    problem(api.get(f"/breakers/{opened}"), 404, "BREAKER_NOT_FOUND")
    assert len(items(api, f"/breakers/{opened}/events")) == 1


def test_list_is_paged_newest_first(api: Api, database: Database) -> None:
    names = [f"http:host-{number}:80" for number in range(5)]
    for name in names:
        rows.add_breaker(database, name, "open", open_for=timedelta(hours=1))
    listed, query = list[str](), {"limit": 2}
    while query:
        page = api.get("/breakers", **query).get_json()
        listed += [item["target"] for item in page["items"]]
        query = {"limit": 2, "cursor": page["cursor"]} if page["cursor"] else {}
    assert listed == names[::-1]


@each_case("path", ["/breakers/{}", "/breakers/{}/events"])
@each_case("target", ["https:nowhere.example:443", "a" * 3000, "kafka:a:1,b:2~0123abcd"])
def test_target_without_a_breaker_is_404(api: Api, path: str, target: str) -> None:
    problem(api.get(path.format(target)), 404, "BREAKER_NOT_FOUND")


def test_unknown_state_is_refused(api: Api) -> None:
    assert pointers(problem(api.get("/breakers", state="ajar"), 400, "INVALID_REQUEST")) == ["state"]


def test_open_breaker_of_an_endpoint_is_found(database: Database, opened: str) -> None:
    (found,) = breakers_store.of_endpoint(database, "remind")
    assert (found.target, found.state, found.reason) == (opened, BreakerState.OPEN, "FAILURES")
    assert breakers_store.of_endpoint(database, "other") == []
    assert sum(breakers_store.count_by_state(database).values()) == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE endpoints SET breaker = CAST('\"off\"' AS JSONB) RETURNING 1",
        # Nobody probed the breaker although its probe is overdue: the endpoint resolves to another target now.
        "UPDATE breakers SET open_until = now() - INTERVAL '2 minutes' RETURNING 1",
    ],
)
def test_breaker_that_holds_no_endpoint_back_is_ignored(database: Database, opened: str, change: str) -> None:
    rows.add_endpoint(database, "remind")
    assert [found.target for found in breakers_store.of_endpoint(database, "remind")] == [opened]
    database.fetch(text(change))
    assert breakers_store.of_endpoint(database, "remind") == []
