"""Lanes with what waits for too long are found in all queues, and very many lanes delay only their own endpoint."""

import math
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.features.expiry.expiry_survey import ExpirySurvey
from app.features.expiry.store import Bounds
from app.kernel.db import Database
from app.queue.claiming.claimable_queues import ENTRIES as PAGE
from app.queue.claiming.endpoint_partitions import ENTRIES, MOST_STRETCHES
from app.queue.claiming.partition import Lane
from tests import rows
from tests.claiming import add_to
from tests.contract.scheduler.conftest import chores
from tests.contract.scheduler.expiring import RULES, waits_asked_for

AGED = Lane(0, "aged", "=a", 10)
OF_ENDPOINTS = "(limit_key, priority) >"  # only of the survey's statement


def add_lanes(database: Database, endpoint: str, count: int) -> None:
    """Create an execution that is due since 90 s in each of so many lanes."""
    added = rows.add_executions(database, count, due_in=timedelta(seconds=-90))
    key = "'=' || CAST(array_position(CAST(:ids AS TEXT[]), execution_id) - 1 AS TEXT)"
    move = f"UPDATE executions SET endpoint = :endpoint, limit_key = {key} WHERE execution_id = ANY (:ids)"
    database.fetch(text(move), {"ids": added, "endpoint": endpoint})


def test_the_walk_through_very_many_lanes_ends_where_the_scheduler_stops(aged: Database) -> None:
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    add_lanes(aged, "aged", 150)  # more than a step finds
    asked: list[int] = []

    def stopping() -> bool:
        asked.append(1)
        return len(asked) > 1

    survey = ExpirySurvey(aged)
    assert len([*survey.go_on(Bounds({"aged": 60_000}, frozenset()), 1, math.inf, stopping)]) < 1
    assert len(asked) == 2
    (visit,) = survey.go_on(Bounds({"aged": 60_000}, frozenset()), 1, math.inf, lambda: False)
    assert {lane.limit_key for lane in visit.lanes} == {f"={number}" for number in range(150)}


def test_lanes_of_those_that_bound_no_age_are_not_read(aged: Database) -> None:
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    add_lanes(aged, "target", 2_000)
    (late,) = add_to(aged, AGED, due_in=-90)
    asked = waits_asked_for(aged, OF_ENDPOINTS)
    assert chores(aged).expire()["expired"] == 1
    assert rows.execution(aged, late).status == "FAILED"
    assert len(asked) == 1


def test_very_many_keys_delay_only_their_own_endpoint(aged: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.features.expiry.chores.RUN_SECONDS", 0.0)
    many = [f"many-{number}" for number in range(MOST_STRETCHES)]
    for name in many:
        rows.add_endpoint(aged, name, retry_policy={"max_age_ms": 60_000})
        add_lanes(aged, name, 3 * ENTRIES)
    for name in ("aged", *many):
        aged.fetch(text(RULES["a pause"]), {"name": name})
    (late,) = add_to(aged, AGED, due_in=-90)
    aged.fetch(text("UPDATE executions SET queue = 'z' WHERE execution_id = :id"), {"id": late})
    expire, asked = chores(aged).expire, waits_asked_for(aged, OF_ENDPOINTS)
    for run in range(1, 5):
        expire()
        assert len(asked) == run
    assert rows.execution(aged, late).status == "FAILED"


def test_each_queue_has_its_turn(aged: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are by whose names somebody lets something wait that nobody serves."""
    monkeypatch.setattr("app.features.expiry.chores.RUN_SECONDS", 0.0)
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    move = text("UPDATE executions SET queue = :queue WHERE execution_id = :id")
    for number in range(3 * MOST_STRETCHES):
        (one,) = add_to(aged, Lane(0, "target", "", 128), due_in=-5)
        aged.fetch(move, {"queue": f"a{number}", "id": one})
    expire = chores(aged).expire
    for _ in range(2):
        (late,) = add_to(aged, AGED, due_in=-90)
        aged.fetch(move, {"queue": "z", "id": late})
        assert sum(expire()["expired"] for _ in range(5)) == 1
        assert rows.execution(aged, late).status == "FAILED"


def test_of_a_paused_queue_only_those_with_something_there_are_asked_for_their_age(
    aged: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many endpoints bound an age, and with as many others in the queue as fill pages."""
    monkeypatch.setattr("app.features.expiry.chores.RUN_SECONDS", 0.0)
    rows.add_endpoint(aged, "elsewhere", retry_policy={"max_age_ms": 60_000})
    others = [rows.add_endpoint(aged, f"a{number:03}") for number in range(2 * PAGE)]
    added = rows.add_executions(aged, len(others), due_in=timedelta(seconds=-90))
    fill = """UPDATE executions AS e SET endpoint = u.name FROM unnest(CAST(:ids AS TEXT[]), CAST(:names AS TEXT[]))
                                                                 AS u (id, name) WHERE e.execution_id = u.id"""
    aged.fetch(text(f"{fill} RETURNING 1"), {"ids": added, "names": others})
    aged.fetch(text(RULES["a pause of its queue"]), {"name": "test"})
    (late,) = add_to(aged, AGED, due_in=-90)
    (elsewhere,) = add_to(aged, Lane(0, "elsewhere", "", 128), due_in=-90)
    aged.fetch(text("UPDATE executions SET queue = 'another' WHERE execution_id = :id"), {"id": elsewhere})
    asked: list[str] = []

    @event.listens_for(aged.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "endpoint_versions" in statement and "AS passed" not in statement:
            asked.extend(parameters.get("endpoints", ["all of them"] if "FROM endpoints" not in statement else []))

    expire = chores(aged).expire
    assert [sum(expire().values()) for _ in range(3)] == [0, 0, 1], "no run reads more than a page of what has no age"
    assert asked == [*others, "aged"]
    assert [rows.execution(aged, one).status for one in (late, elsewhere)] == ["FAILED", "QUEUED"]
    aged.fetch(text("DELETE FROM paused_queues RETURNING 1"))
    assert expire() == {}
