"""Endpoints of actors: by requests, and by the registration of processes."""

from app.catalog.endpoints import versions
from app.catalog.endpoints.actor_endpoints import register
from app.kernel.db import Database
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
