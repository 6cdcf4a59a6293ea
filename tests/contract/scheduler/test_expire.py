"""What waits behind rules for longer than `max_age_ms` ends, with no attempt; all else goes on waiting."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.queue.claiming.partition import Lane
from tests import rows
from tests.claiming import add_to
from tests.contract.scheduler.conftest import chores
from tests.contract.scheduler.expiring import RULES, waits_asked_for

LANES = [Lane(0, "aged", f"={name}", priority) for name in "ab" for priority in (10, 200)]


def add_versions(database: Database, ages_ms: Sequence[int], *, endpoint: str = "aged") -> None:
    """Add versions from 2 on, each with such a max_age_ms."""
    database.fetch(
        text(
            "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec, retry_policy) "
            "SELECT endpoint, 1 + number, endpoint_type, spec, jsonb_build_object('max_age_ms', age) "
            "FROM endpoint_versions, unnest(CAST(:ages AS BIGINT[])) WITH ORDINALITY AS u (age, number) "
            "WHERE endpoint = :endpoint AND version = 1"
        ),
        {"ages": list(ages_ms), "endpoint": endpoint},
    )


def ends_asked_for(database: Database) -> list[list[str]]:
    """Note the executions that each statement is to end from now on."""
    asked: list[list[str]] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "SET status = 'FAILED'" in statement:
            asked.append(parameters["ids"])

    return asked


@contextmanager
def locked(database: Database, execution_id: str) -> Iterator[None]:
    """Lock an execution meanwhile."""
    with database.engine.begin() as connection:
        connection.execute(text("SELECT 1 FROM executions WHERE execution_id = :id FOR UPDATE"), {"id": execution_id})
        yield


@pytest.mark.parametrize("rule", RULES)
def test_what_has_waited_for_too_long_fails_and_says_why(aged: Database, rule: str) -> None:
    aged.fetch(text(RULES[rule]), {"name": "aged"})
    late = [execution for lane in LANES for execution in add_to(aged, lane, 2, due_in=-90)]
    young = [execution for lane in LANES for execution in add_to(aged, lane, due_in=-30)]
    others = add_to(aged, Lane(0, "target", "", 128), due_in=-90)
    assert chores(aged).expire()["expired"] == len(late)
    assert {rows.execution(aged, one).status for one in late} == {"FAILED"}
    assert {rows.execution(aged, one).status for one in young + others} == {"QUEUED"}
    events = aged.fetch(text("SELECT execution_id, from_status, to_status, reason, actor FROM execution_events"))
    assert {tuple(row) for row in events} == {(one, "QUEUED", "FAILED", "EXPIRED", None) for one in late}
    assert rows.job_of(aged, late[0]).status == "RETIRED"
    assert rows.attempts(aged, late[0]) == []
    assert chores(aged).expire()["expired"] == 0


@pytest.mark.parametrize("age", ['"soon"', "1.5", "{}", "null", "1e30"])
def test_a_policy_that_was_edited_by_hand_keeps_no_others_waiting(aged: Database, age: str) -> None:
    rows.add_endpoint(aged, "odd")
    aged.fetch(
        text("UPDATE endpoint_versions SET retry_policy = CAST(:policy AS JSONB) WHERE endpoint = 'odd'"),
        {"policy": f'{{"max_age_ms": {age}}}'},
    )
    for name in ("aged", "odd"):
        aged.fetch(text(RULES["a pause"]), {"name": name})
    add_to(aged, LANES[0], due_in=-90)
    assert chores(aged).expire()["expired"] == 1


def test_where_nothing_makes_wait_nothing_is_too_old(aged: Database) -> None:
    """A backlog is not a limit: first attempts that are late were never refused for it."""
    (late,) = add_to(aged, LANES[0], due_in=-90)
    mine = chores(aged)
    assert mine.expire() == {}
    aged.fetch(text("INSERT INTO paused_queues (queue, paused_by) VALUES ('another', 'test') RETURNING 1"))
    assert mine.expire() == {}, "another queue is paused"
    with locked(aged, late):
        aged.fetch(text("UPDATE paused_queues SET queue = 'http' RETURNING 1"))
        assert mine.expire() == {"expired": 0}, "it is about to be claimed"
    aged.fetch(text("DELETE FROM paused_queues RETURNING 1"))
    assert mine.expire() == {}, "its queue goes on"


def test_a_manual_retry_is_as_late_as_somebody_wants_it(aged: Database) -> None:
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    (execution,) = add_to(aged, LANES[0], due_in=-90)
    aged.fetch(text("UPDATE executions SET attempt_count = 3, max_attempts = 6, status = 'QUEUED'"))
    assert chores(aged).expire()["expired"] == 0
    aged.fetch(text("UPDATE executions SET attempt_count = 4, status = 'RETRYING'"))
    assert chores(aged).expire()["expired"] == 1
    assert rows.execution(aged, execution).status == "FAILED"


def test_what_somebody_runs_at_that_moment_does_not_expire(aged: Database) -> None:
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    wanted, late = add_to(aged, LANES[0], 2, due_in=-90)
    brought_forward = []

    @event.listens_for(aged.engine, "before_cursor_execute")
    def bring_forward(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "SET status = 'FAILED'" in statement and not brought_forward:
            brought_forward.append(wanted)
            aged.fetch(text("UPDATE executions SET run_at = now() WHERE execution_id = :id"), {"id": wanted})

    assert chores(aged).expire()["expired"] == 1
    assert [rows.execution(aged, one).status for one in (wanted, late)] == ["QUEUED", "FAILED"]


def test_behind_those_of_a_version_that_may_wait_longer_it_goes_on(
    aged: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.features.expiry.expiry_walk.BATCH", 2)
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    aged.fetch(
        text(
            "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec) "
            "SELECT endpoint, 2, endpoint_type, spec FROM endpoint_versions WHERE endpoint = 'aged'"
        )
    )
    for seconds, count in ((95, 5), (94, 1), (93, 1)):  # of a batch all are due at the same instant
        add_to(aged, LANES[0], count, due_in=-seconds)
    aged.fetch(text("UPDATE executions SET endpoint_version = 2"))
    late = [add_to(aged, LANES[0], due_in=-seconds)[0] for seconds in (80, 70, 65)]
    assert chores(aged).expire()["expired"] == 3
    assert {rows.execution(aged, one).status for one in late} == {"FAILED"}
    assert rows.statuses(aged) == {"FAILED": 3, "QUEUED": 7}


def test_what_a_version_lets_wait_longer_is_read_once(aged: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier version that was stricter may have left nothing, beside very much that may wait."""
    monkeypatch.setattr("app.features.expiry.expiry_walk.BATCH", 2)
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    add_versions(aged, [3_600_000])
    old = [add_to(aged, LANES[0], due_in=-seconds)[0] for seconds in range(4000, 3000, -100)]
    aged.fetch(text("UPDATE executions SET endpoint_version = 2"))
    expire, asked = chores(aged).expire, waits_asked_for(aged)

    assert expire()["expired"] == 5
    assert rows.statuses(aged) == {"FAILED": 5, "QUEUED": 5}
    assert len(asked) > 6
    asked.clear()
    (late,) = add_to(aged, LANES[0], due_in=-90)
    assert expire()["expired"] == 1
    assert rows.execution(aged, late).status == "FAILED"
    assert len(asked) <= 3
    assert rows.execution(aged, old[-1]).status == "QUEUED"


def test_versions_of_which_nothing_waits_cost_no_read(aged: Database) -> None:
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    add_versions(aged, range(1_000, 41_000, 1_000))
    (late,), (young,) = (add_to(aged, LANES[0], due_in=-seconds) for seconds in (90, 50))
    asked = waits_asked_for(aged)
    assert chores(aged).expire()["expired"] == 1
    assert [rows.execution(aged, one).status for one in (late, young)] == ["FAILED", "QUEUED"]
    assert len(asked) <= 2


def test_a_lane_with_very_many_ages_is_read_by_few(aged: Database) -> None:
    aged.fetch(text(RULES["a pause"]), {"name": "aged"})
    add_versions(aged, range(60_000, 1_060_000, 10_000))
    waiting = add_to(aged, LANES[0], 101, due_in=-1)
    own_version = "UPDATE executions SET endpoint_version = 1 + array_position(CAST(:ids AS TEXT[]), execution_id)"
    aged.fetch(text(own_version), {"ids": waiting})
    aged.fetch(text("UPDATE executions SET endpoint_version = 1 WHERE endpoint_version = 102"))
    aged.fetch(text("UPDATE executions SET run_at = run_at - INTERVAL '1 minute'"))
    expire, asked = chores(aged).expire, waits_asked_for(aged)
    assert expire()["expired"] == 2  # of the two versions with the shortest age
    later = text("UPDATE executions SET run_at = run_at - INTERVAL '1 hour' WHERE status = 'QUEUED'")
    aged.fetch(later)
    assert expire()["expired"] == 99
    assert len(asked) <= 2 * 17


def test_whoever_has_very_much_that_waits_delays_no_other(aged: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.features.expiry.expiry_walk.BATCH", 1)
    monkeypatch.setattr("app.features.expiry.chores.RUN_SECONDS", 0.0)
    rows.add_endpoint(aged, "other", retry_policy={"max_age_ms": 60_000})
    add_versions(aged, [70_000, 80_000])
    for name in ("aged", "other"):
        aged.fetch(text(RULES["a pause"]), {"name": name})
    for lane in LANES:
        for version, seconds in ((2, 65), (3, 95), (1, 95)):
            (one,) = add_to(aged, lane, due_in=-seconds)
            version_of = text("UPDATE executions SET endpoint_version = :version WHERE execution_id = :id")
            aged.fetch(version_of, {"version": version, "id": one})
    (others,) = add_to(aged, LANES[0]._replace(endpoint="other"), due_in=-90)
    expire, asked = chores(aged).expire, waits_asked_for(aged)
    assert expire()["expired"] <= 2
    assert rows.execution(aged, others).status == "FAILED"
    while (done := len(asked)) < 100 and rows.statuses(aged) != {"FAILED": 9, "QUEUED": 4}:
        expire()
        assert len(asked) <= done + 2
    assert rows.statuses(aged) == {"FAILED": 9, "QUEUED": 4}


def test_what_somebody_has_locked_keeps_no_other(aged: Database) -> None:
    rows.add_endpoint(aged, "other", retry_policy={"max_age_ms": 60_000})
    for name in ("aged", "other"):
        aged.fetch(text(RULES["a pause"]), {"name": name})
    locked, beside = add_to(aged, LANES[0], 2, due_in=-90)
    others = [add_to(aged, lane._replace(endpoint="other"), due_in=-90)[0] for lane in LANES[:2]]
    expire = chores(aged).expire
    with aged.engine.connect() as connection:
        connection.execute(text("SELECT 1 FROM executions WHERE execution_id = :id FOR UPDATE"), {"id": locked})
        assert expire()["expired"] == 3
        connection.rollback()
    assert {rows.execution(aged, one).status for one in (beside, *others)} == {"FAILED"}
    assert expire()["expired"] == 1
    assert rows.execution(aged, locked).status == "FAILED"


def test_an_end_that_must_wait_keeps_no_other_and_comes_last_the_next_time(aged: Database) -> None:
    """As where somebody has locked the job: it waits for as long as it may."""
    rows.add_endpoint(aged, "other", retry_policy={"max_age_ms": 60_000})
    for name in ("aged", "other"):
        aged.fetch(text(RULES["a pause"]), {"name": name})
    (locked,) = add_to(aged, LANES[0], due_in=-90)
    for lane in LANES[:2]:
        add_to(aged, lane._replace(endpoint="other"), due_in=-90)
    expire = chores(aged).expire

    @event.listens_for(aged.engine, "begin")
    def hardly_wait(connection: Connection) -> None:
        connection.exec_driver_sql("SET LOCAL lock_timeout = '50ms'")

    with aged.engine.connect() as connection:
        connection.execute(
            text("SELECT 1 FROM jobs WHERE job_id = :id FOR UPDATE"), {"id": rows.job_of(aged, locked).job_id}
        )
        with pytest.raises(UnavailableError):
            expire()
        assert rows.statuses(aged) == {"FAILED": 2, "QUEUED": 1}
        late = [add_to(aged, lane._replace(endpoint="other"), due_in=-90)[0] for lane in LANES[:2]]
        asked = ends_asked_for(aged)
        with pytest.raises(UnavailableError):
            expire()
        assert asked[:3] == [[late[0]], [late[1]], [locked]]
        connection.rollback()
    assert expire()["expired"] == 1


def test_gates_go_once_they_were_idle_for_two_days(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.scheduler.pruner.BATCH", 3)
    used = text("INSERT INTO gates (gate_id, used_at) VALUES (:id, now() - :age)")
    for number in range(10):
        age = timedelta(days=1 if number in (2, 7) else 3)
        database.fetch(used, {"id": f"gate={number}", "age": age})
        window = "INSERT INTO gate_windows (gate_id, slot, bucket, started) VALUES (:id, 1, 1, 1)"
        database.fetch(text(window), {"id": f"gate={number}"})
    assert chores(database).prune_gates()["gates"] == 8
    for table in ("gates", "gate_windows"):
        left = database.fetch(text(f"SELECT gate_id FROM {table} ORDER BY gate_id"))
        assert [row.gate_id for row in left] == ["gate=2", "gate=7"]
