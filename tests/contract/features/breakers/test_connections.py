"""Connections to a host: a process claims no more executions than it has connections."""

from app.features.breakers.store import close
from app.kernel.db import Database
from brokers.sharing.bindings import NO_LIMIT
from tests.contract.features.breakers.breaking import LIMIT, NAME, TIMEOUT_MS, NewWorker, OneClaim


def test_claims_of_a_host_do_not_exceed_its_connections(database: Database, new_worker: NewWorker) -> None:
    """The limit covers all endpoints of a host, and each endpoint without a resolved target."""
    worker = new_worker()
    worker.bind("other")
    worker.bind("elsewhere", "http:elsewhere:80")
    in_use = {"endpoint": 30, "other": 50, "elsewhere": 7, "unknown": 3}
    capacities = {endpoint: worker.capacity(endpoint, in_use) for endpoint in (*in_use, "new")}
    assert capacities == {"endpoint": 20, "other": 20, "elsewhere": 93, "unknown": 97, "new": 100}
    worker.bind("other", "http:elsewhere:80")
    assert worker.capacity("endpoint", in_use) == 70
    worker.bindings.bind("records", "kafka:a:1", TIMEOUT_MS, has_turns=False)
    assert worker.capacity("records", {"records": 1000}) == NO_LIMIT


def test_partitions_of_one_claim_share_the_connections_to_their_host(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.bind("other")
    worker.bind("elsewhere", "http:elsewhere:80")
    one_claim = OneClaim(worker.breakers, worker.bindings, {"endpoint": 30, "other": 50})
    taken = [one_claim.take(endpoint, 15) for endpoint in ("endpoint", "other", "other", "elsewhere")]
    assert taken == [15, 5, 0, 15]


def test_quick_endpoint_may_claim_twice_the_connections_while_no_other_endpoint_needs_any(
    database: Database, new_worker: NewWorker
) -> None:
    worker = new_worker()
    worker.bind("slow")
    worker.bind("elsewhere", "http:elsewhere:80")
    in_use = {"endpoint": LIMIT + 30}
    for others, expected in (((), LIMIT - 30), (("elsewhere",), LIMIT - 30), (("slow",), 0)):
        assert (
            OneClaim(worker.breakers, worker.bindings, in_use, quick=["endpoint"], others=others).take("endpoint", 90)
            == expected
        )
    # The claims ahead are then used up soon, and the slow endpoint gets its turn for the next connection.
    one_claim = OneClaim(worker.breakers, worker.bindings, {"endpoint": LIMIT - 1}, quick=["endpoint"], others=["slow"])
    assert (one_claim.take("slow", 90), one_claim.take("endpoint", 90)) == (1, 0)


def test_endpoints_without_recent_deliveries_are_forgotten(new_worker: NewWorker) -> None:
    """Endpoints with deliveries in flight, and targets with results, stay."""
    worker = new_worker()
    gone, working = worker.bind("gone", "http:gone:80"), worker.bind("works", "http:works:80")
    worker.bind("other")
    worker.bind("records", "kafka:a:1").failed("records")
    working.results["works"][0] += 1
    in_use = {"endpoint": 30, "other": 20}
    assert worker.capacity("endpoint", in_use) == LIMIT - 50
    worker.bindings.forget(["endpoint"])
    assert worker.bindings.bound.keys() == {"endpoint"}
    assert worker.capacity("endpoint", in_use) == LIMIT - 30
    assert worker.bind("gone", "http:gone:80") is not gone
    assert worker.bind("works", "http:works:80") is working


def test_endpoints_behind_an_open_breaker_are_not_forgotten(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.fail(10)
    worker.sync()
    for _ in range(3):
        worker.bindings.forget([])
    assert worker.bindings.behind_open() == ["endpoint"]
    close(database, NAME, "somebody")
    worker.sync()
    for _ in range(2):
        worker.bindings.forget([])
    assert not worker.bindings.bound
    assert worker.bind("endpoint") is worker.target, "the target stays for executions that waited behind its breaker"


def test_newest_version_of_an_endpoint_determines_its_target(new_worker: NewWorker) -> None:
    """A delivery of an earlier version still goes to the target of that version."""
    worker = new_worker()

    def bind(name: str, version: int) -> str:
        bound = worker.bindings.bind("moved", name, TIMEOUT_MS, has_turns=True, as_of=(version, 7))
        assert bound.name == name
        return worker.bindings.bound["moved"].name

    assert bind("http:a:80", 1) == "http:a:80"
    assert bind("http:b:80", 3) == "http:b:80"
    assert bind("http:b:80", 2) == "http:b:80"
    assert bind("http:a:80", 2) == "http:b:80"
    assert bind("http:a:80", 3) == "http:a:80", "a secret has changed"
