"""GET /stats/figures and /stats/endpoints: queues, endpoints that are held back, and endpoints in trouble."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.features.control import fresh_reading, shared_figures
from app.features.control.fresh_reading import FreshReading
from app.features.rollups.rollup_slots import advance
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests import rows
from tests.cases import each_case
from tests.endings import Ending, begin_rollups, put_endings
from tests.integration.client import Api, services
from tests.waiting import HUNG_SECONDS, eventually


@pytest.fixture(autouse=True)
def _always_anew(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.app.extensions.pop(shared_figures.EXTENSION, None)
    monkeypatch.setattr(shared_figures, "FreshReading", lambda read: FreshReading(read, 0))


@pytest.fixture
def endpoints(database: Database) -> None:
    """Endpoints with troubles of each kind, and two without."""
    for name in ("broken", "calm", "failing", "idle", "late", "limited", "lettered", "paused", "unsure"):
        rows.add_endpoint(database, name)
    at = begin_rollups(database, 3) + timedelta(minutes=1)
    calm = [Ending("calm", at, "SUCCESS", late_ms=2, took_ms=20) for _ in range(20)]
    others = [
        Ending("failing", at, "FAILED", "HTTP_422", late_ms=1, took_ms=1),
        Ending("late", at, "SUCCESS", late_ms=9_000, took_ms=1),
        Ending("unsure", at, "RETRYING", "TIMEOUT", is_uncertain=True, late_ms=1, took_ms=1),
    ]
    put_endings(database, [*calm, *others])
    list(advance(database, 200))
    rows.add_executions(database, 3, endpoint="limited", due_in=timedelta(seconds=-5))
    database.fetch(text("UPDATE endpoints SET limits = '{\"max_in_flight\": 1}' WHERE name = 'limited'"))
    (running,) = rows.add_executions(database, endpoint="limited")
    rows.set_status(database, rows.job_of(database, running).job_id, "RUNNING")
    database.fetch(text("UPDATE endpoints SET paused_at = now() WHERE name = 'paused'"))
    (letter,) = rows.add_executions(database, endpoint="lettered")
    rows.add_letter(database, letter)
    rows.add_breaker(database, "t", "open", open_for=timedelta(minutes=1))
    database.fetch(text("INSERT INTO breaker_endpoints (target, endpoint) VALUES ('t', 'broken') RETURNING target"))


def get(api: Api, **query: Any) -> dict[str, Any]:
    response = api.get("/stats/endpoints", **query)
    assert response.status_code == 200, response.get_data(as_text=True)
    found: dict[str, Any] = response.json
    return found


@pytest.mark.usefixtures("endpoints")
def test_endpoints_are_listed_by_trouble(api: Api) -> None:
    found = get(api)
    troubles = {each["endpoint"]: each["troubles"] for each in found["endpoints"]}
    assert [*troubles.items()] == [
        ("broken", ["breaker"]),
        ("failing", ["failing"]),
        ("unsure", ["uncertain"]),
        ("late", ["late"]),
        ("paused", ["paused"]),
        ("limited", ["held"]),
        ("lettered", ["letters"]),
        ("calm", []),
    ]
    states = {each["endpoint"]: each for each in found["endpoints"]}
    calm = states["calm"]
    assert (calm["attempts"], calm["succeeded"], calm["on_time"]) == (20, 20, 1.0)
    assert (sum(calm["trend"]), len(calm["trend"]), sum(calm["failures_trend"])) == (20, 12, 0)
    assert calm["lateness_ms"] == {"p50": 5, "p95": 5, "p99": 5}
    assert (states["limited"]["held_by"], states["limited"]["waiting"]) == ("concurrency", 3)
    assert states["late"]["on_time"] == 0.0
    assert (states["broken"]["breaker"], states["lettered"]["letters"]) == ("open", 1)


@pytest.mark.usefixtures("endpoints")
@each_case(
    ("order", "first"),
    {
        "failed": "failing",
        "lateness": "late",
        "waiting": "limited",
        "letters": "lettered",
        "attempts": "calm",
        "name": "broken",
    }.items(),
)
def test_endpoints_are_listed_by_a_figure(api: Api, order: str, first: str) -> None:
    found = get(api, sort=order, limit=1, window="30m")
    assert [each["endpoint"] for each in found["endpoints"]] == [first]
    assert found["left_out"] == 7


def test_window_is_bounded(api: Api) -> None:
    response = api.get("/stats/endpoints", window="1s")
    assert [each["pointer"] for each in response.json["error"]["details"]] == ["window"]
    assert get(api) | {"from": 0, "until": 0} == {"from": 0, "until": 0, "endpoints": [], "left_out": 0}


@pytest.mark.usefixtures("endpoints")
def test_figures_are_those_of_the_service(api: Api, database: Database) -> None:
    worker_lease.register(database, worker_id="w1", host="h", pid=7, queues=["http"], capacity=9, lease_ms=60_000)
    found = api.get("/stats/figures").json
    assert [(each["queue"], each["due"], each["workers"]) for each in found["queues"]] == [("http", 4, 1)]
    assert found["held"] == [{"endpoint": "limited", "hold": "concurrency", "waiting": 3, "seconds": None}]
    assert (found["paused_endpoints"], found["open_breakers"], found["half_open_breakers"]) == (1, 1, 0)
    assert found["letters"] == [{"endpoint": "lettered", "letters": 1}]
    assert (found["workers"]["capacity"], found["workers"]["by_state"]["ALIVE"]) == (9, 1)


def test_figures_are_read_once_for_all_clients(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(fresh_reading, "monotonic", lambda: now[0])
    monkeypatch.setattr(shared_figures, "FreshReading", FreshReading)
    statements: list[str] = []
    event.listen(services(api.app).database.engine, "before_cursor_execute", lambda *call: statements.append(call[2]))

    def reads(path: str) -> int:
        before = len(statements)
        assert api.get(path).status_code == 200
        return len([each for each in statements[before:] if "api_keys" not in each])

    for path in ("/stats/figures", "/stats/endpoints"):
        assert reads(path) > 3
        now[0] += 1.9
        assert reads(path) == 0
        now[0] += 0.1
        assert reads(path) > 3


def test_error_is_raised_to_all_who_waited_for_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would wait as long for an error of its own."""
    began, goes_on, reads, asked = threading.Event(), threading.Event(), list[int](), list[int]()

    def count() -> float:
        asked.append(1)
        return float(len(asked))

    monkeypatch.setattr(fresh_reading, "monotonic", count)

    def read() -> int:
        reads.append(1)
        began.set()
        goes_on.wait(HUNG_SECONDS)
        raise TimeoutError

    reading = FreshReading(read)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(reading.get)
        began.wait(HUNG_SECONDS)
        before = len(asked)
        others = [pool.submit(reading.get) for _ in range(3)]
        eventually(lambda: len(asked) == before + 3, what="three that wait")
        goes_on.set()
        assert all(isinstance(each.exception(HUNG_SECONDS), TimeoutError) for each in (first, *others))
    assert len(reads) == 1
    with pytest.raises(TimeoutError):
        reading.get()
    assert len(reads) == 2
