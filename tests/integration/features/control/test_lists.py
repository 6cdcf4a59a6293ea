"""Lists of queues, workers, schedulers and processes: GET /queues, /workers, /schedulers, /processes."""

from typing import Any

from sqlalchemy import text

from app.features.control.store import LOST_SECONDS
from app.kernel.db import Database
from app.kernel.processes import process_heartbeat, worker_lease
from app.kernel.processes.process_heartbeat import Component, ProcessKind
from app.kernel.version import tzdata_version, version
from tests import rows
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem, read_all_pages
from tests.integration.registered import register


def add_worker(database: Database, worker_id: str, *queues: str, lease_ms: int = 600_000) -> None:
    worker_lease.register(database, worker_id=worker_id, host="h", pid=1, queues=queues, capacity=9, lease_ms=lease_ms)


def test_queues_are_listed_by_name_with_due_executions_and_workers(api: Api, database: Database) -> None:
    assert api.get("/queues").json == {"items": [], "cursor": None}
    register(api)
    assert api.send("PATCH", "/endpoints/target", json={"queue": "named"}).status_code == 200
    add_worker(database, "one", "http", "kafka")
    add_worker(database, "two", "http")
    add_worker(database, "lost", "kafka", "nowhere", lease_ms=0)
    executions = rows.add_executions(database, 6)
    # The queue `bulk` has executions in two shards. Shard 40 is above the configured number of shards, and above
    # the number that one statement reads. Neither the later execution nor the running execution counts as due.
    change = (
        "UPDATE executions SET queue = 'bulk', shard = :shard, run_at = now() - :age WHERE execution_id = ANY (:ids)"
    )
    for shard, age, ids in ((0, "1 minute", executions[:2]), (40, "1 hour", executions[2:3])):
        database.fetch(text(f"{change} RETURNING 1".replace(":age", f"INTERVAL '{age}'")), {"shard": shard, "ids": ids})
    later = "UPDATE executions SET run_at = run_at + INTERVAL '1 day' WHERE execution_id = :id RETURNING 1"
    database.fetch(text(later), {"id": executions[3]})
    rows.set_status(database, rows.execution(database, executions[4]).job_id, "RUNNING")
    found = {item["queue"]: item for item in api.get("/queues").json["items"]}
    assert {name: (item["workers"], item["due"]) for name, item in found.items()} == {
        "bulk": (0, 3),
        "http": (2, 1),
        "kafka": (1, 0),
        "named": (0, 0),
    }
    assert 3600 <= found["bulk"]["oldest_due_seconds"] < 7200
    assert found["bulk"]["oldest_due_at"] < found["http"]["oldest_due_at"]
    assert found["kafka"]["oldest_due_at"] is found["kafka"]["oldest_due_seconds"] is None
    assert read_all_pages(api, "/queues", "queue") == ["bulk", "http", "kafka", "named"]


def test_workers_are_listed_newest_first_with_their_states(api: Api, database: Database) -> None:
    add_worker(database, "well", "http", "bulk")
    add_worker(database, "silent", "http", lease_ms=0)
    add_worker(database, "gone", "http")
    worker_lease.leave(database, "gone")
    worker_lease.renew(database, worker_id="well", in_flight=7, lease_ms=600_000)
    assert read_all_pages(api, "/workers", "worker_id", limit=1) == ["gone", "silent", "well"]
    by_state = {state: read_all_pages(api, "/workers", "worker_id", state=state) for state in ("ALIVE", "LOST", "DEAD")}
    assert by_state == {"ALIVE": ["well"], "LOST": ["silent"], "DEAD": ["gone"]}
    (well,) = api.get("/workers", state="ALIVE").json["items"]
    instants = {name: well.pop(name) for name in ("started_at", "last_beat_at", "lease_expires_at")}
    assert instants["started_at"] < instants["last_beat_at"] < instants["lease_expires_at"]
    assert well == {
        "worker_id": "well",
        "state": "ALIVE",
        "host": "h",
        "pid": 1,
        "queues": ["bulk", "http"],
        "capacity": 9,
        "in_flight": 7,
    }


def test_schedulers_are_listed_newest_first_with_their_states(api: Api, database: Database) -> None:
    for kind, names in ((ProcessKind.SCHEDULER, ("gone", "silent", "well")), (ProcessKind.WORKER, ("other",))):
        for name in names:
            process_heartbeat.beat(database, Component("default", kind, name))
    process_heartbeat.leave(database, Component("default", ProcessKind.SCHEDULER, "gone"))
    query = """UPDATE region_heartbeats SET last_beat_at = now() - CAST(:seconds AS BIGINT) * INTERVAL '1 second'
                WHERE component = :component RETURNING 1"""
    for name, seconds in (("silent", LOST_SECONDS + 1), ("well", LOST_SECONDS - 5)):
        database.fetch(text(query), {"component": f"scheduler/{name}", "seconds": int(seconds)})
    assert read_all_pages(api, "/schedulers", "scheduler_id", limit=1) == ["well", "silent", "gone"]
    by_state = {
        state: read_all_pages(api, "/schedulers", "scheduler_id", state=state) for state in ("ALIVE", "LOST", "DEAD")
    }
    assert by_state == {"ALIVE": ["well"], "LOST": ["silent"], "DEAD": ["gone"]}
    (well,) = api.get("/schedulers", state="ALIVE").json["items"]
    assert set(well) == {"scheduler_id", "state", "region", "host", "pid", "version", "started_at", "last_beat_at"}
    assert (well["region"], well["version"]) == ("default", version())


def test_processes_are_listed_by_kind_and_state_with_their_clocks(api: Api, database: Database) -> None:
    for kind in (ProcessKind.WEB, ProcessKind.SCHEDULER, ProcessKind.WORKER):
        process_heartbeat.beat(database, Component("default", kind, f"p-{kind.value}"))
    process_heartbeat.leave(database, Component("default", ProcessKind.SCHEDULER, "p-scheduler"))
    assert read_all_pages(api, "/processes", "process_id", limit=1) == ["p-worker", "p-scheduler", "p-web"]
    assert read_all_pages(api, "/processes", "process_id", kind="worker") == ["p-worker"]
    assert read_all_pages(api, "/processes", "process_id", state="DEAD") == ["p-scheduler"]
    (web,) = api.get("/processes", kind="web").json["items"]
    assert (web["kind"], web["state"], web["version"]) == ("web", "ALIVE", version())
    assert web["tzdata_version"] == tzdata_version()
    assert abs(web["clock_ahead_seconds"]) <= web["clock_bound_seconds"] < 5, "process and database share a clock"
    old = """UPDATE region_heartbeats SET metadata = metadata - 'ahead' - 'tzdata_version'
              WHERE component = 'web/p-web' RETURNING 1"""
    database.fetch(text(old))
    (web,) = api.get("/processes", kind="web").json["items"]
    assert web["clock_ahead_seconds"] is web["clock_bound_seconds"] is web["tzdata_version"] is None, (
        "an older release reports neither its clock nor its time zone rules"
    )


@each_case(
    ("path", "query", "field"),
    [
        ("/workers", {"state": "TIRED"}, "state"),
        ("/queues", {"cursor": "x"}, "cursor"),
        ("/schedulers", {"state": "TIRED"}, "state"),
        ("/processes", {"kind": "cook"}, "kind"),
        ("/stats", {"seconds": 0}, "seconds"),
        ("/stats", {"seconds": 3601}, "seconds"),
        ("/stats", {"endpoint": "a b"}, "endpoint"),
    ],
)
def test_invalid_query_is_refused(api: Api, path: str, query: dict[str, Any], field: str) -> None:
    assert pointers(problem(api.get(path, **query), 400, "INVALID_REQUEST")) == [field]
