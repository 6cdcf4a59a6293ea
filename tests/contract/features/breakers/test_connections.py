"""Connections to a host: no more is claimed than finds one."""

from app.features.breakers.store import close
from app.kernel.db import Database
from brokers.sharing.bindings import NO_LIMIT
from tests.contract.features.breakers.breaking import LIMIT, NAME, TIMEOUT_MS, NewWorker, Rooms


def test_no_more_is_claimed_than_finds_a_connection(database: Database, new_worker: NewWorker) -> None:
    """Over all endpoints of a host, and before it is known where an endpoint leads."""
    worker = new_worker()
    worker.bind("other")
    worker.bind("elsewhere", "http:elsewhere:80")
    held = {"endpoint": 30, "other": 50, "elsewhere": 7, "unknown": 3}
    room = {endpoint: worker.room(endpoint, held) for endpoint in (*held, "new")}
    assert room == {"endpoint": 20, "other": 20, "elsewhere": 93, "unknown": 97, "new": 100}
    worker.bind("other", "http:elsewhere:80")
    assert worker.room("endpoint", held) == 70
    worker.bindings.bind("records", "kafka:a:1", TIMEOUT_MS, has_turns=False)
    assert worker.room("records", {"records": 1000}) == NO_LIMIT


def test_partitions_of_one_pick_share_the_connections_to_their_host(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.bind("other")
    worker.bind("elsewhere", "http:elsewhere:80")
    rooms = Rooms(worker.breakers, worker.bindings, {"endpoint": 30, "other": 50})
    got = [rooms.take(endpoint, 15) for endpoint in ("endpoint", "other", "other", "elsewhere")]
    assert got == [15, 5, 0, 15]


def test_quick_endpoints_have_as_many_again_claimed_while_no_other_wants_a_connection(
    database: Database, new_worker: NewWorker
) -> None:
    worker = new_worker()
    worker.bind("slow")
    worker.bind("elsewhere", "http:elsewhere:80")
    held = {"endpoint": LIMIT + 30}
    for others, got in (((), LIMIT - 30), (("elsewhere",), LIMIT - 30), (("slow",), 0)):
        assert (
            Rooms(worker.breakers, worker.bindings, held, quick=["endpoint"], others=others).take("endpoint", 90) == got
        )
    # So what is claimed ahead is used up soon, and whoever is first by turn has the next connection.
    rooms = Rooms(worker.breakers, worker.bindings, {"endpoint": LIMIT - 1}, quick=["endpoint"], others=["slow"])
    assert (rooms.take("slow", 90), rooms.take("endpoint", 90)) == (1, 0)


def test_endpoints_without_a_delivery_for_long_are_forgotten(new_worker: NewWorker) -> None:
    """But endpoints in flight, and targets with a result."""
    worker = new_worker()
    gone, working = worker.bind("gone", "http:gone:80"), worker.bind("works", "http:works:80")
    worker.bind("other")
    worker.bind("records", "kafka:a:1").failed("records")
    working.results["works"][0] += 1
    held = {"endpoint": 30, "other": 20}
    assert worker.room("endpoint", held) == LIMIT - 50
    worker.bindings.forget(["endpoint"])
    assert worker.bindings.bound.keys() == {"endpoint"}
    assert worker.room("endpoint", held) == LIMIT - 30
    assert worker.bind("gone", "http:gone:80") is not gone
    assert worker.bind("works", "http:works:80") is working


def test_endpoints_behind_an_open_breaker_are_not_forgotten(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.fail(10)
    worker.beat()
    for _ in range(3):
        worker.bindings.forget([])
    assert worker.bindings.behind_open() == ["endpoint"]
    close(database, NAME, "somebody")
    worker.beat()
    for _ in range(2):
        worker.bindings.forget([])
    assert not worker.bindings.bound
    assert worker.bind("endpoint") is worker.target, "executions that have waited for it may come yet"


def test_the_newest_version_of_an_endpoint_says_where_it_leads(new_worker: NewWorker) -> None:
    """A delivery of an earlier version goes to its own target all the same."""
    worker = new_worker()

    def lead(name: str, version: int) -> str:
        bound = worker.bindings.bind("moved", name, TIMEOUT_MS, has_turns=True, as_of=(version, 7))
        assert bound.name == name
        return worker.bindings.bound["moved"].name

    assert lead("http:a:80", 1) == "http:a:80"
    assert lead("http:b:80", 3) == "http:b:80"
    assert lead("http:b:80", 2) == "http:b:80"
    assert lead("http:a:80", 2) == "http:b:80"
    assert lead("http:a:80", 3) == "http:a:80", "its secret has changed"
