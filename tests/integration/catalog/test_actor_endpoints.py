"""Endpoints of actors: by requests, and by the registration of processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, text

from app.catalog.endpoints import versions
from app.catalog.endpoints.actor_endpoints import closed_actors, register
from app.kernel import db
from app.kernel.access.key_ring import Key
from app.kernel.db import Database
from app.kernel.errors import EndpointNotFoundError
from app.queue.jobs import actor_schedules
from app.queue.jobs.actor_schedules import ActorSchedules
from app.queue.jobs.following_jobs import Placing
from tests.integration.client import Api

ACTOR = {"name": "send_mail", "queue": "mails", "options": {"time_limit": 1_000, "priority": 118}}


def test_name_of_an_actor_endpoint_is_that_of_its_actor(api: Api) -> None:
    body = {"name": "mails", "type": "ACTOR", "spec": {"actor": "send_mail"}}
    answer = api.post("/endpoints", body)
    assert answer.status_code == 400
    (detail,) = answer.json["error"]["details"]
    assert (detail["pointer"], "'send-mail'" in detail["message"]) == ("/name", True)
    assert api.post("/endpoints", {**body, "name": "send-mail"}).status_code == 201


def test_registration_creates_an_endpoint_and_a_version_for_each_change(database: Database) -> None:
    assert register(database, [ACTOR]).endpoints == {"send_mail": "send-mail"}
    endpoint = versions.get(database, "send-mail")
    assert endpoint.spec == {"actor": "send_mail", "queue": "mails", "timeout_ms": 31_000}
    assert (endpoint.version, endpoint.priority) == (1, 118)
    register(database, [ACTOR])
    assert versions.get(database, "send-mail").version == 1
    register(database, [{**ACTOR, "queue": "other"}])
    assert versions.get(database, "send-mail").version == 2
    assert versions.get(database, "send-mail").spec["queue"] == "other"


def test_taken_name_refuses_one_actor_and_no_other(api: Api, database: Database) -> None:
    spec = {"url": "http://127.0.0.1:9/", "method": "POST"}
    assert api.post("/endpoints", {"name": "send-mail", "type": "HTTP", "spec": spec}).status_code == 201
    found = register(database, [ACTOR, {"name": "other"}, {"name": "bad", "options": {"max_lost": "x"}}])
    assert found.endpoints == {"other": "other"}
    assert "another `actor_name`" in found.refused["send_mail"]
    assert "max_lost" in found.refused["bad"]


def test_key_registers_the_actors_of_its_queues_only(database: Database) -> None:
    shop = Key("id", "shop", frozenset({"actors:work:mail?", "read"}))
    found = register(database, [ACTOR, {"name": "pay", "queue": "money"}, {"name": "plain"}], key=shop)
    assert found.endpoints == {"send_mail": "send-mail"}
    assert found.refused.keys() == {"pay", "plain"}
    assert "The actor 'pay' is of the queue 'money'" in found.refused["pay"]
    assert "the API key 'shop' has the scopes actors:work:mail? only" in found.refused["pay"]
    assert "'actors:work:money' or 'actors:work', or give the actor another `queue_name`" in found.refused["pay"]
    assert "the queue 'default'" in found.refused["plain"]
    with pytest.raises(EndpointNotFoundError):
        versions.get(database, "pay")


def test_closed_actors_of_a_key_are_the_actors_that_a_registration_refuses_for_their_queue(database: Database) -> None:
    shop, open_ = Key("id", "shop", frozenset({"actors:work:mails"})), {"queue": "mails"}
    register(database, [{"name": "pay", **open_}, {"name": "stay", **open_}])
    actors = [{"name": name, **open_} for name in ("pay", "stay", "new", "x" * 300)] + [{"name": "other"}]
    found = register(database, actors, key=shop)
    assert found.closed == closed_actors(database, actors, shop) == {"other"}
    register(database, [{"name": "pay", "queue": "money"}])
    with queries_of(database) as queries:
        closed = closed_actors(database, actors, shop)
    assert closed == register(database, actors, key=shop).closed == {"other", "pay"}
    assert {"jobs" in query for query in queries} == {False}  # it runs twice a minute for each process
    assert versions.get(database, "pay").spec["queue"] == "money"


def test_key_takes_no_actor_of_a_closed_queue_into_its_own(database: Database) -> None:
    register(database, [{"name": "pay", "queue": "money"}])
    shop = Key("id", "shop", frozenset({"actors:work:mails"}))
    found = register(database, [{"name": "pay", "queue": "mails"}], key=shop)
    assert "is of the queue 'money'" in found.refused["pay"]
    assert (versions.get(database, "pay").version, versions.get(database, "pay").spec["queue"]) == (1, "money")


@contextmanager
def queries_of(database: Database) -> Iterator[list[str]]:
    """Collect the statements that a database gets."""
    queries = list[str]()

    def collect(_connection: object, _cursor: object, query: str, *_more: object) -> None:
        queries.append(query)

    event.listen(database.engine, "before_cursor_execute", collect)
    yield queries
    event.remove(database.engine, "before_cursor_execute", collect)


@contextmanager
def moved_before_the_lock(database: Database, database_url: str, actor: dict[str, Any]) -> Iterator[None]:
    """Register an actor by another process, once a registration has read its endpoint and before it changes it."""
    others = db.connect(database_url, pool_size=1, application_name="te-test-owner")
    moves = [actor]

    def before_the_lock(_connection: object, _cursor: object, query: str, *_more: object) -> None:
        if moves and "FROM endpoints" in query and "FOR UPDATE" in query:
            register(others, [moves.pop()])

    event.listen(database.engine, "before_cursor_execute", before_the_lock)
    yield
    event.remove(database.engine, "before_cursor_execute", before_the_lock)
    others.close()
    assert moves == []


def test_key_takes_no_actor_that_leaves_its_queues_during_the_registration(
    database: Database, database_url: str
) -> None:
    register(database, [{"name": "pay", "queue": "mails"}])
    shop = Key("id", "shop", frozenset({"actors:work:mails"}))
    with moved_before_the_lock(database, database_url, {"name": "pay", "queue": "money"}):
        found = register(database, [{"name": "pay", "queue": "mails", "options": {"max_lost": 5}}], key=shop)
    assert "is of the queue 'money'" in found.refused["pay"]
    assert (versions.get(database, "pay").version, versions.get(database, "pay").spec["queue"]) == (2, "money")


def test_refusal_repeats_no_text_without_a_bound(database: Database) -> None:
    shop = Key("id", "shop", frozenset({f"actors:work:{'q' * 200}{number}" for number in range(10)}))
    long = "x" * 1_000
    found = register(database, [{"name": long}, {"name": "pay", "queue": long}, {"name": "x" * 255}], key=shop)
    assert [len(each) for each in found.refused] == [255, 3]
    assert all(len(each) <= 500 for each in found.refused.values())
    assert "the queue has 1000 characters; at most 255 are allowed" in found.refused["pay"].lower()


def test_unstorable_actor_is_refused_and_no_other(database: Database) -> None:
    found = register(database, [{"name": "a\0"}, {"name": "b", "queue": "\ud800"}, {"name": "c", "options": [1]}])
    assert (found.endpoints, {*found.refused}) == ({"c": "c"}, {"a\0", "b"})


def test_changed_options_keep_what_requests_have_set(api: Api, database: Database) -> None:
    register(database, [ACTOR, {"name": "other"}])
    body = {"type": "ACTOR", "spec": {"actor": "send_mail", "arguments": {"a": "{{input.a}}"}}}
    changed = {**body, "callbacks": {"on_failure": "other"}, "retry_policy": {"max_attempts": 7}}
    assert api.put("/endpoints/send-mail", changed).status_code == 200
    register(database, [{**ACTOR, "options": {"max_lost": 5}}])
    endpoint = versions.get(database, "send-mail")
    assert (endpoint.spec["max_lost"], endpoint.spec["arguments"]) == (5, {"a": "{{input.a}}"})
    assert endpoint.callbacks == {"on_failure": "other"}
    assert (endpoint.retry_policy or {})["max_attempts"] == 7
    register(database, [ACTOR])
    assert "max_lost" not in versions.get(database, "send-mail").spec


def schedules_of(database: Database) -> list[tuple[str, str, str]]:
    found = text("SELECT cron_expression, cron_timezone, status FROM jobs ORDER BY created_at, job_id")
    return [tuple(row) for row in database.fetch(found)]


def test_cron_of_an_actor_is_a_job_that_follows_the_code(database: Database) -> None:
    schedules = ActorSchedules(database, Placing(1, 5_000))
    daily = {"name": "report", "options": {"cron": "0 9 * * *", "timezone": "Europe/Berlin"}}
    hourly = {"name": "report", "options": {"cron": "0 * * * *"}}
    for _ in range(2):
        assert register(database, [daily], schedules=schedules).refused == {}
    assert schedules_of(database) == [("0 9 * * *", "Europe/Berlin", "ACTIVE")]
    register(database, [hourly], schedules=schedules)
    before = ("0 9 * * *", "Europe/Berlin", "RETIRED")
    assert schedules_of(database) == [before, ("0 * * * *", "UTC", "ACTIVE")]
    register(database, [daily], schedules=schedules)
    assert schedules_of(database)[1:] == [("0 * * * *", "UTC", "RETIRED"), ("0 9 * * *", "Europe/Berlin", "ACTIVE")]
    register(database, [{"name": "report"}], schedules=schedules)
    assert {status for _, _, status in schedules_of(database)} == {"RETIRED"}


class Interrupted(ActorSchedules):
    """Schedules that let another process register its actors after the first read of the jobs."""

    def __init__(self, database: Database, others: list[dict[str, Any]]) -> None:
        super().__init__(database, Placing(1, 5_000))
        self.database, self.others = database, others

    def _find(self, endpoint: str) -> Any:
        found = super()._find(endpoint)
        if self.others:
            others, self.others = self.others, []
            register(self.database, others, schedules=ActorSchedules(self.database, Placing(1, 5_000)))
        return found


@pytest.mark.parametrize("earlier", ["0 9 * * *", "0 * * * *", "5 5 * * *", None])
def test_processes_of_two_versions_that_register_at_once_leave_one_schedule(
    database: Database, earlier: str | None
) -> None:
    older, newer = ({"name": "report", "options": {"cron": cron}} for cron in ("0 9 * * *", "0 * * * *"))
    if earlier is not None:
        options = {"cron": earlier}
        schedules = ActorSchedules(database, Placing(1, 5_000))
        register(database, [{"name": "report", "options": options}], schedules=schedules)
    assert register(database, [older], schedules=Interrupted(database, [newer])).refused == {}
    stored = versions.get(database, "report").spec["cron"]
    assert [cron for cron, _, status in schedules_of(database) if status == "ACTIVE"] == [stored]


class Contended(ActorSchedules):
    """Schedules with another process that registers another schedule between each read of the spec and of the jobs."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, Placing(1, 5_000))
        self.database, self.reads = database, 0

    def _find(self, endpoint: str) -> Any:
        self.reads += 1
        other = {"name": "report", "options": {"cron": f"{self.reads} * * * *"}}
        register(self.database, [other], schedules=ActorSchedules(self.database, Placing(1, 5_000)))
        return super()._find(endpoint)


def test_actor_is_served_although_other_processes_change_its_schedule_all_the_time(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(actor_schedules, "MAX_PAUSE_SECONDS", 0.0)
    contended = Contended(database)
    found = register(database, [{"name": "report", "options": {"cron": "0 9 * * *"}}], schedules=contended)
    assert (found.endpoints, found.refused) == ({"report": "report"}, {})
    assert contended.reads == actor_schedules.TRIES
    assert "other processes change the schedule of actor report" in caplog.text


def test_job_that_an_interrupted_registration_has_left_is_retired_by_the_next(database: Database) -> None:
    schedules = ActorSchedules(database, Placing(1, 5_000))
    register(database, [{"name": "report", "options": {"cron": "0 9 * * *"}}], schedules=schedules)
    register(database, [{"name": "report"}])  # its process ends before the jobs follow
    register(database, [{"name": "report"}], schedules=schedules)
    assert [status for *_, status in schedules_of(database)] == ["RETIRED"]


def test_refused_registration_leaves_the_schedule_of_the_owner(database: Database, database_url: str) -> None:
    schedules = ActorSchedules(database, Placing(1, 5_000))
    pay = {"name": "pay", "queue": "mails", "options": {"cron": "0 9 * * *"}}
    register(database, [pay], schedules=schedules)
    moving = moved_before_the_lock(database, database_url, {**pay, "queue": "money"})
    shop = Key("id", "shop", frozenset({"actors:work:mails"}))
    with moving:
        found = register(database, [{"name": "pay", "queue": "mails"}], key=shop, schedules=schedules)
    assert "is of the queue 'money'" in found.refused["pay"]
    assert [status for *_, status in schedules_of(database)] == ["ACTIVE"]


def test_changed_job_of_a_cron_is_no_reason_for_a_second_one(api: Api, database: Database) -> None:
    schedules = ActorSchedules(database, Placing(1, 5_000))
    daily, hourly = ({"name": "report", "options": {"cron": cron}} for cron in ("0 9 * * *", "0 * * * *"))
    register(database, [daily], schedules=schedules)
    (job,) = database.fetch(text("SELECT job_id FROM jobs"))
    assert api.put(f"/jobs/{job.job_id}", {"input": {"a": 1}}).status_code == 200
    register(database, [daily], schedules=schedules)
    assert [status for *_, status in schedules_of(database)] == ["RETIRED", "ACTIVE"]
    register(database, [hourly], schedules=schedules)
    register(database, [daily], schedules=schedules)
    for which in ("first_version_id IS NOT NULL", "cron_expression = '0 9 * * *'"):
        database.fetch(text(f"DELETE FROM jobs WHERE {which} AND status = 'RETIRED'"))  # as prune_versions does
    register(database, [daily], schedules=schedules)
    assert [cron for cron, _, status in schedules_of(database) if status != "RETIRED"] == ["0 9 * * *"]


def test_invalid_cron_refuses_its_actor(database: Database) -> None:
    schedules = ActorSchedules(database, Placing(1, 5_000))
    found = register(database, [{"name": "report", "options": {"cron": "gibberish"}}], schedules=schedules)
    assert "gibberish" in found.refused["report"]


def test_name_that_a_request_takes_during_a_registration_refuses_the_actor(api: Api, database: Database) -> None:
    class Taking:
        """Schedules that let a request take the name of the next actor during the first call."""

        def follow(self, endpoint: str) -> None:
            spec = {"url": "http://127.0.0.1:9/", "method": "POST"}
            assert api.post("/endpoints", {"name": "send-mail", "type": "HTTP", "spec": spec}).status_code == 201

    found = register(database, [{"name": "first", "options": {"cron": "0 9 * * *"}}, ACTOR], schedules=Taking())
    assert found.endpoints == {"first": "first"}
    assert "another `actor_name`" in found.refused["send_mail"]


def test_field_that_a_request_adds_during_a_registration_stays(api: Api, database: Database) -> None:
    register(database, [ACTOR])
    changed = {"type": "ACTOR", "spec": {"actor": "send_mail", "arguments": {"to": "{{input.user}}"}}}

    class Changing:
        """Schedules that let a request change the endpoint of the next actor during the first call."""

        def follow(self, endpoint: str) -> None:
            assert api.send("PUT", "/endpoints/send-mail", json=changed).status_code == 200

    register(
        database,
        [{"name": "first", "options": {"cron": "0 9 * * *"}}, {**ACTOR, "queue": "other"}],
        schedules=Changing(),
    )
    spec = versions.get(database, "send-mail").spec
    assert (spec["queue"], spec["arguments"]) == ("other", {"to": "{{input.user}}"})
