"""Executions that were taken back from a lost worker: GET /workers/{id}, and the page of processes."""

import html
import re

from flask import Flask
from sqlalchemy import text

from app.features.control import store
from app.features.control.reclaimed import reclaimed_from
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.processes import worker_lease
from app.queue.executions.reclaim import reclaim
from app.queue.executions.reclaim_candidates import candidates
from tests import rows
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor

RUN = text(
    "UPDATE executions SET status = 'RUNNING', worker_id = :worker, started_at = now(), attempt_count = 1"
    " WHERE execution_id = ANY (:ids)"
)


def lose(database: Database, worker: str, executions: int) -> None:
    """Let a worker end without its lease while it runs executions, which a scheduler takes back."""
    worker_lease.register(database, worker_id=worker, host="h", pid=1, queues=["http"], capacity=9, lease_ms=0)
    ids = rows.add_executions(database, executions, max_attempts=3) if executions else []
    database.fetch(RUN, {"worker": worker, "ids": ids})
    assert reclaim(database, candidates(database, limit=99)).retrying == executions


def test_executions_that_were_taken_back_are_counted_by_worker(app: Flask, api: Api, database: Database) -> None:
    rows.add_endpoint(database)
    worker_lease.register(database, worker_id="well", host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    for worker, number in (("first", 3), ("second", 1), ("idle", 0)):
        lose(database, worker, number)
    found = {worker: api.get(f"/workers/{worker}").json["reclaimed"] for worker in ("well", "first", "second", "idle")}
    last = found["first"].pop("last_at")
    assert (last is not None, last < found["second"]["last_at"]) == (True, True)
    assert (found["well"], found["first"], found["second"]["executions"]) == (None, {"executions": 3}, 1)
    assert found["idle"] == {"executions": 0, "last_at": None}
    visitor = Visitor(app, Scope.READ)
    page = visitor.get("/console/processes")
    assert page.count("schedulers took back") == 2
    (address,) = re.findall(r'took back <a href="(/console/uncertain\?worker_id=first&amp;[^"]*until=[^"]*)"', page)
    assert visitor.get(html.unescape(address)).count('<tr id="att_') == 3


def test_worker_that_was_lost_behind_the_read_attempts_is_left_out(database: Database) -> None:
    rows.add_endpoint(database)
    for worker, number in (("old", 2), ("new", 3)):
        lose(database, worker, number)
    workers = store.page_of_workers(database, None, PageRequest(9)).items
    counts = {most: reclaimed_from(database, workers, most) for most in (1, 9)}
    assert {most: {name: each.executions for name, each in found.items()} for most, found in counts.items()} == {
        1: {"old": 1},
        9: {"old": 2, "new": 3},
    }


def test_losses_before_the_end_of_a_lease_are_not_counted(database: Database) -> None:
    """A live worker writes a loss itself if an actor has lost its last process."""
    rows.add_endpoint(database)
    for worker, number in (("old", 1), ("new", 2)):
        lose(database, worker, number)
    database.fetch(text("UPDATE workers SET lease_expires_at = now() WHERE worker_id = 'new' RETURNING 1"))
    workers = store.page_of_workers(database, None, PageRequest(9)).items
    assert {name: each.executions for name, each in reclaimed_from(database, workers).items()} == {"old": 1, "new": 0}
