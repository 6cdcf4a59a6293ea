"""Registry of actors: the API, the command line, the console and `explain`."""

from dataclasses import replace

import pytest
from flask import Flask
from sqlalchemy import text

from app.catalog.endpoints.actor_endpoints import register
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import actor_processes, worker_lease
from app.kernel.processes.actor_processes import ActorProcess
from tests import rows
from tests.integration.client import Api, problem, read_all_pages
from tests.integration.command_line import Cli
from tests.integration.console.visitor import Visitor
from tests.integration.registered import register as register_http

LONG_MS = 600_000


def process(session: str, *endpoints: str, is_connected: bool = True) -> ActorProcess:
    return ActorProcess(
        session_id=session, host="app-1", pid=7, threads=2, endpoints=endpoints, is_connected=is_connected
    )


def worker(database: Database, worker_id: str, queue: str = "actor") -> None:
    worker_lease.register(database, worker_id=worker_id, host="h", pid=1, queues=[queue], capacity=9, lease_ms=LONG_MS)


@pytest.fixture
def actors(api: Api, database: Database) -> Api:
    """Three actors: processes at two workers offer `send_mail`, one of them `report`, and none `idle`."""
    register_http(api)
    register(database, [{"name": "idle"}, {"name": "report", "options": {"cron": "0 9 * * *"}}])
    register(database, [{"name": "send_mail", "queue": "mails", "options": {"time_limit": 1_000, "priority": 118}}])
    for worker_id in ("wrk_1", "wrk_2"):
        worker(database, worker_id)
    actor_processes.write(database, "wrk_1", process("one", "send-mail", "report"))
    actor_processes.write(database, "wrk_2", process("two", "send-mail"))
    return api


def test_actor_has_its_options_and_the_processes_that_offer_it(actors: Api) -> None:
    found = actors.get("/actors/send_mail").json
    assert [(each["worker_id"], each["session_id"]) for each in found["processes"]] == [
        ("wrk_2", "two"),
        ("wrk_1", "one"),
    ]
    assert found["last_seen_at"] >= found["processes"][0]["connected_at"] >= found["registered_at"]
    options = {"endpoint": "send-mail", "queue": "mails", "priority": 118, "timeout_ms": 31_000, "process_count": 2}
    assert found.items() >= options.items()
    assert actors.get("/actors/report").json["cron"] == "0 9 * * *"
    for unknown in ("send-mail", "target", "nobody"):
        problem(actors.get(f"/actors/{unknown}"), 404, "ACTOR_NOT_FOUND")


def test_actors_are_listed_newest_first_and_by_offer(actors: Api) -> None:
    assert read_all_pages(actors, "/actors", "actor", limit=1) == ["send_mail", "report", "idle"]
    assert read_all_pages(actors, "/actors", "actor", is_offered=True) == ["send_mail", "report"]
    (idle,) = actors.get("/actors", is_offered=False).json["items"]
    assert (idle["actor"], idle["processes"], idle["last_seen_at"]) == ("idle", [], None)


def test_actors_at_a_worker_have_its_processes_only(actors: Api) -> None:
    assert read_all_pages(actors, "/workers/wrk_1/actors", "actor") == ["send_mail", "report"]
    (found,) = actors.get("/workers/wrk_2/actors").json["items"]
    assert ([each["session_id"] for each in found["processes"]], found["process_count"]) == (["two"], 1)
    problem(actors.get("/workers/wrk_0/actors"), 404, "WORKER_NOT_FOUND")


def test_process_that_left_or_whose_worker_is_gone_is_the_last_sign(actors: Api, database: Database) -> None:
    actor_processes.write(database, "wrk_1", process("one", is_connected=False))
    assert actors.get("/actors/send_mail").json["process_count"] == 1
    worker_lease.leave(database, "wrk_2")
    found = actors.get("/actors/send_mail").json
    assert (found["process_count"], found["last_seen_at"] is None) == (0, False)
    worker(database, "wrk_3")
    actor_processes.write(database, "wrk_3", process("one", "idle"))
    assert actors.get("/actors/idle").json["process_count"] == 1


def test_process_that_returns_is_connected_anew(actors: Api, database: Database) -> None:
    before = actors.get("/actors/report").json["processes"][0]["connected_at"]
    actor_processes.write(database, "wrk_1", process("one", "report", "idle"))
    assert actors.get("/actors/idle").json["processes"][0]["connected_at"] == before
    actor_processes.write(database, "wrk_1", process("one", is_connected=False))
    actor_processes.write(database, "wrk_1", process("one", "report"))
    assert actors.get("/actors/report").json["processes"][0]["connected_at"] > before


@pytest.mark.parametrize(
    ("endpoint", "queue", "change", "reason"),
    [
        ("idle", "actor", "", "NO_PROCESS"),
        ("report", "actor", "", "NEXT_IN_QUEUE"),
        ("report", "actor", "UPDATE workers SET lease_expires_at = now() WHERE worker_id = 'wrk_1'", "NO_PROCESS"),
        ("report", "bulk", "", "NO_PROCESS"),
        ("target", "actor", "", "NEXT_IN_QUEUE"),
    ],
)
def test_wait_for_a_process_is_explained(
    actors: Api, database: Database, endpoint: str, queue: str, change: str, reason: str
) -> None:
    worker(database, "wrk_3", "bulk")
    (execution,) = rows.add_executions(database, endpoint=endpoint)
    database.fetch(text("UPDATE executions SET queue = :queue RETURNING 1"), {"queue": queue})
    if change:
        database.fetch(text(f"{change} RETURNING 1"))
    found = actors.get(f"/executions/{execution}/explain").json
    assert found["reason"] == reason
    if reason == "NO_PROCESS":
        sentence = f"no process connected to a worker of the queue '{queue}' offers its actor '{endpoint}'"
        assert sentence in found["explanation"]
    assert actors.post("/explain", {"executions": [execution]}).json["items"][0]["reason"] == reason


def test_refused_actor_has_its_reason(actors: Api, database: Database) -> None:
    reason = "The actor 'idle' is of the queue 'default', which is closed."
    refusing = replace(process("three", "report"), refused={"idle": reason})
    actor_processes.write(database, "wrk_1", refusing)
    refusal = {"worker_id": "wrk_1", "session_id": "three", "host": "app-1", "pid": 7, "reason": reason}
    found = actors.get("/actors/idle").json
    assert (found["process_count"], found["refusals"]) == (0, [refusal])
    assert [each["refusals"] for each in actors.get("/workers/wrk_1/actors").json["items"]] == [[], []]
    listed = {each["actor"]: each["refusals"] for each in actors.get("/actors").json["items"]}
    assert listed == {"send_mail": [], "report": [], "idle": [refusal]}
    (execution,) = rows.add_executions(database, endpoint="idle")
    database.fetch(text("UPDATE executions SET queue = 'actor' RETURNING 1"))
    explained = actors.get(f"/executions/{execution}/explain").json
    assert (explained["reason"], explained["details"]["refusal"]) == ("NO_PROCESS", reason)
    assert explained["explanation"].endswith(f": {reason}")
    assert f"refused: process 7 on app-1 at wrk_1: {reason}" in Cli(actors).run("actors", "show", "idle").stdout
    actor_processes.write(database, "wrk_1", replace(refusing, refused={}))
    assert actors.get("/actors/idle").json["refusals"] == []
    actor_processes.write(database, "wrk_1", refusing)
    actor_processes.write(database, "wrk_1", replace(refusing, is_connected=False))
    assert actors.get("/actors/idle").json["refusals"] == []
    assert "refusal" not in actors.get(f"/executions/{execution}/explain").json["details"]


def test_commands_print_the_fields_of_the_api(actors: Api) -> None:
    cli = Cli(actors)
    listed = [each["actor"] for each in cli.json("actors", "list")["items"]]
    assert listed == ["send_mail", "report", "idle"]
    assert [each["actor"] for each in cli.json("actors", "list", "--not-offered")["items"]] == ["idle"]
    assert [each["actor"] for each in cli.json("actors", "list", "--worker", "wrk_2")["items"]] == ["send_mail"]
    shown, got = cli.json("actors", "show", "send_mail"), actors.get("/actors/send_mail").json
    assert {**shown, "last_seen_at": None} == {**got, "last_seen_at": None}
    assert "app-1" in cli.run("actors", "show", "send_mail").stdout
    assert "send-mail" in cli.run("actors", "list").stdout
    cli.run("actors", "show", "nobody", expect=3)
    cli.run("actors", "list", "--worker", "wrk_0", expect=3)
    cli.run("actors", "list", "--worker", "wrk_2", "--offered", expect=2)


def test_console_shows_actors_only_if_there_are_any(app: Flask, api: Api, database: Database) -> None:
    page = Visitor(app, Scope.READ).get("/console/processes")
    assert "Actors" not in page
    register(database, [{"name": "idle"}, {"name": "busy"}])
    worker(database, "wrk_1")
    actor_processes.write(database, "wrk_1", process("one", "busy"))
    page = Visitor(app, Scope.READ).get("/console/processes")
    assert all(part in page for part in ("Actors", "busy", "pid 7", "no process", "not within a day"))
    actor_processes.write(database, "wrk_1", replace(process("two"), refused={"idle": "closed to its key"}))
    assert "closed to its key" in Visitor(app, Scope.READ).get("/console/processes")
