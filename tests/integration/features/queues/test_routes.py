"""Routes: the first pattern that matches the name of an endpoint gives its queue."""

from collections.abc import Iterator
from typing import Any

import pytest

from app.catalog import routing
from app.catalog.routing import Route
from app.kernel.db import Database, deadline
from app.kernel.errors import TimedOutError
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import created, one_shot, register

BILLING = [{"pattern": "billing-*", "queue": "bulk"}, {"pattern": "billing-eu", "queue": "slow"}]


def queue_of(api: Api, name: str) -> str:
    queue: str = api.get(f"/endpoints/{name}").json["queue_in_effect"]
    return queue


def execution_queue(api: Api, endpoint: str, key: str) -> str:
    job = created(api, one_shot(key, endpoint=endpoint))
    queue: str = api.get(f"/executions/{job['execution']['execution_id']}").json["queue"]
    return queue


def test_routes_apply_to_endpoints_without_a_queue(api: Api) -> None:
    for name in ("billing-eu", "mail"):
        register(api, name)
    register(api, "billing-own", queue="mine")
    assert execution_queue(api, "billing-eu", "before") == "http"
    tag = api.get("/endpoints/billing-eu").headers["ETag"]

    first = api.get("/routes")
    assert first.json == {"routes": [], "source": "environment"}
    changed = api.put("/routes", {"routes": BILLING}, headers={"If-Match": first.headers["ETag"]})
    assert (changed.status_code, changed.json) == (200, {"routes": BILLING, "source": "api"})
    assert api.get("/routes").headers["ETag"] == changed.headers["ETag"] != first.headers["ETag"]
    problem(api.put("/routes", {"routes": []}, headers={"If-Match": first.headers["ETag"]}), 400, "INVALID_REQUEST")
    stale = api.put("/routes", {"routes": BILLING}, headers={"If-Match": first.headers["ETag"]})
    problem(stale, 412, "PRECONDITION_FAILED")

    routed = api.send("GET", "/endpoints/billing-eu", headers={"If-None-Match": tag})
    assert (routed.status_code, routed.json["queue_in_effect"]) == (200, "bulk")
    register(api, "billing-us")
    found = {name: queue_of(api, name) for name in ("billing-eu", "billing-us", "billing-own", "mail")}
    assert found == {"billing-eu": "bulk", "billing-us": "bulk", "billing-own": "mine", "mail": "http"}
    assert execution_queue(api, "billing-eu", "after") == "bulk"
    assert execution_queue(api, "billing-own", "own") == "mine"

    assert api.delete("/routes").json == {"routes": [], "source": "environment"}
    assert (queue_of(api, "billing-eu"), queue_of(api, "billing-own")) == ("http", "mine")
    assert api.get("/endpoints/billing-eu").headers["ETag"] == tag
    entries = api.get("/audit", resource_type="routes").json["items"]
    assert [entry["action"] for entry in entries] == ["replace", "replace"]


class SlowRoutes(list[Route]):
    """Routes whose first read uses up the time of the request."""

    reads = 0

    def __iter__(self) -> Iterator[Route]:
        self.reads += 1
        deadline.begin(0)
        return super().__iter__()


def test_trial_of_routes_ends_at_the_deadline_of_the_request(api: Api, database: Database) -> None:
    for name in ("a", "b", "c"):
        register(api, name)
    routes = SlowRoutes([Route("*", "bulk")])
    try:
        with pytest.raises(TimedOutError):
            list(routing.moves(database, routes))
    finally:
        deadline.end()
    assert routes.reads == 1


def test_trial_of_routes_shows_the_route_and_the_moved_endpoints(api: Api) -> None:
    register(api, "billing-eu")
    register(api, "mail")
    register(api, "billing-own", queue="mine")

    def try_routes(endpoint: str, **body: Any) -> Any:
        return api.post("/routes/test", {"endpoint": endpoint} | body).json

    nothing = {"queue": None, "pattern": None, "position": None, "is_default": True}
    assert try_routes("unknown") == nothing
    assert try_routes("mail") == nothing | {"queue": "http"}
    found = {"queue": "bulk", "pattern": "billing-*", "position": 0, "is_default": False}
    moves = [{"endpoint": "billing-eu", "before": "http", "after": "bulk"}]
    assert try_routes("billing-us", routes=BILLING) == found | {"moves": moves, "move_count": 1}
    assert api.get("/routes").json["routes"] == []
    assert api.put("/routes", {"routes": BILLING}).status_code == 200
    assert try_routes("billing-us") == found
    assert try_routes("mail", routes=BILLING)["moves"] == []
    assert try_routes("mail", routes=[])["moves"] == [{"endpoint": "billing-eu", "before": "bulk", "after": "http"}]


def test_routes_of_the_environment_apply_until_routes_are_set(api: Api, database: Database) -> None:
    register(api, "billing-eu")
    for routes, queue in (([Route("billing-*", "bulk")], "bulk"), ([Route("*", "rest")], "rest"), ([], "http")):
        routing.adopt(database, routes)
        tag = api.get("/routes").headers["ETag"]
        routing.adopt(database, routes)
        assert (queue_of(api, "billing-eu"), api.get("/routes").headers["ETag"]) == (queue, tag)
    assert api.put("/routes", {"routes": BILLING}).status_code == 200
    routing.adopt(database, [Route("*", "rest")])
    assert (queue_of(api, "billing-eu"), api.get("/routes").json["source"]) == ("bulk", "api")


@each_case(
    ("route", "pointer"),
    [
        ({"pattern": "[a-z]", "queue": "bulk"}, "/routes/1/pattern"),
        ({"pattern": "", "queue": "bulk"}, "/routes/1/pattern"),
        ({"pattern": "a*\n", "queue": "bulk"}, "/routes/1/pattern"),
        ({"pattern": "*", "queue": "bulk\n"}, "/routes/1/queue"),
        ({"pattern": "a" * 129, "queue": "bulk"}, "/routes/1/pattern"),
        ({"pattern": "(a+)+$", "queue": "bulk"}, "/routes/1/pattern"),
        ({"pattern": "*", "queue": "a.DQ"}, "/routes/1/queue"),
        ({"pattern": "*"}, "/routes/1/queue"),
        ({"pattern": "*", "queue": "bulk", "else": 1}, "/routes/1/else"),
    ],
)
def test_invalid_route_is_refused_with_its_field(shared_api: Api, route: Any, pointer: str) -> None:
    routes = [BILLING[0], route]
    assert pointers(problem(shared_api.put("/routes", {"routes": routes}), 400, "INVALID_REQUEST")) == [pointer]
    answer = shared_api.post("/routes/test", {"endpoint": "a", "routes": routes})
    assert pointers(problem(answer, 400, "INVALID_REQUEST")) == [pointer]


def test_bare_list_of_routes_is_refused(shared_api: Api) -> None:
    error = problem(shared_api.put("/routes", BILLING), 400, "INVALID_REQUEST")
    assert error["details"] == [{"pointer": "", "message": "Must be an object."}]


def test_number_of_routes_is_from_1_to_200(shared_api: Api) -> None:
    for routes in ([], BILLING * 101):
        assert pointers(problem(shared_api.put("/routes", {"routes": routes}), 400, "INVALID_REQUEST")) == ["/routes"]
