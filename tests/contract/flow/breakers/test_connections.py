"""Connections to a host: no more is claimed than finds one."""

from app.features.breakers.store import close
from app.kernel.db import Database
from brokers.known_targets import NO_LIMIT
from tests.contract.flow.breakers.breaking import LIMIT, NAME, TIMEOUT_MS, NewWorker, Rooms, room_of


def test_no_more_is_claimed_than_finds_a_connection(database: Database, new_worker: NewWorker) -> None:
    """Over all endpoints of a host, and before it is known where an endpoint leads."""
    worker = new_worker()
    worker.bind("other")
    worker.bind("elsewhere", "http:elsewhere:80")
    held = {"endpoint": 30, "other": 50, "elsewhere": 7, "unknown": 3}
    room = {endpoint: room_of(worker.targets, endpoint, held) for endpoint in (*held, "new")}
    assert room == {"endpoint": 20, "other": 20, "elsewhere": 93, "unknown": 97, "new": 100}
    worker.bind("other", "http:elsewhere:80")
    assert room_of(worker.targets, "endpoint", held) == 70
    worker.targets.bind("records", "kafka:a:1", TIMEOUT_MS, has_turns=False)
    assert room_of(worker.targets, "records", {"records": 1000}) == NO_LIMIT
    worker.targets.bind("people", "slack~1", TIMEOUT_MS, has_turns=True, turns=8)
    assert room_of(worker.targets, "people", {"people": 5}) == 3, "a message has a thread, of which there are fewer"
    assert Rooms(worker.targets, {"people": 9}, quick=["people"]).take("people", 90) == 7


def test_lanes_of_one_pick_share_the_connections_to_their_host(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.bind("other")
    worker.bind("elsewhere", "http:elsewhere:80")
    rooms = Rooms(worker.targets, {"endpoint": 30, "other": 50})
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
        assert Rooms(worker.targets, held, quick=["endpoint"], others=others).take("endpoint", 90) == got
    # So what is claimed ahead is used up soon, and whoever is first by turn has the next connection.
    rooms = Rooms(worker.targets, {"endpoint": LIMIT - 1}, quick=["endpoint"], others=["slow"])
    assert (rooms.take("slow", 90), rooms.take("endpoint", 90)) == (1, 0)


def test_who_leads_nowhere_for_long_is_forgotten(new_worker: NewWorker) -> None:
    """Not what is in flight, nor what is known of a target that has failed, or works."""
    worker = new_worker()
    gone, working = worker.bind("gone", "http:gone:80"), worker.bind("works", "http:works:80")
    worker.bind("other")
    worker.bind("records", "kafka:a:1").failed("records")
    worker.targets.forget(["endpoint"])
    working.results.tally[0] += 1
    held = {"endpoint": 30, "other": 20}
    assert worker.room("endpoint", held) == LIMIT - 50, "those that were bound lately are known still"
    worker.targets.forget(["endpoint"])
    assert worker.targets.bound.keys() == {"endpoint"}
    assert worker.room("endpoint", held) == LIMIT - 30
    assert worker.bind("gone", "http:gone:80") is not gone
    assert worker.bind("works", "http:works:80") is working
    assert [target.key for target, _ in worker.targets.active()] == ["kafka:a:1"]


def test_who_waits_for_a_target_that_is_shut_is_not_forgotten(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.fail(10)
    worker.beat()
    for _ in range(3):
        worker.targets.forget([])
    assert worker.targets.shut == {"endpoint": worker.target}
    close(database, NAME, "somebody")
    worker.beat()
    for _ in range(2):
        worker.targets.forget([])
    assert not worker.targets.bound
    assert worker.bind("endpoint") is worker.target, "what has waited for it may come yet"
