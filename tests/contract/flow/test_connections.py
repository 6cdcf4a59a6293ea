"""Connections to a host: no more is claimed than finds one."""

from app.db import Database
from app.executions.claiming.lane import Lane
from brokers.targets import NO_LIMIT
from tests.contract.flow.breaking import TIMEOUT_MS, NewWorker


def test_no_more_is_claimed_than_finds_a_connection(database: Database, new_worker: NewWorker) -> None:
    """Over all endpoints of a host, and before it is known where an endpoint leads."""
    worker = new_worker()
    worker.bind("other")
    worker.bind("elsewhere", "http:elsewhere:80")
    held = {"endpoint": 30, "other": 50, "elsewhere": 7, "unknown": 3}
    room = {endpoint: worker.targets.room(endpoint, held) for endpoint in (*held, "new")}
    assert room == {"endpoint": 20, "other": 20, "elsewhere": 93, "unknown": 97, "new": 100}
    worker.bind("other", "http:elsewhere:80")
    assert worker.targets.room("endpoint", held) == 70
    worker.targets.bind("records", "kafka:a:1", TIMEOUT_MS, has_turns=False)
    assert worker.targets.room("records", {"records": 1000}) == NO_LIMIT


def test_lanes_of_one_pick_share_the_connections_to_their_host(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.bind("other")
    worker.bind("elsewhere", "http:elsewhere:80")
    held, asked = {"endpoint": 30, "other": 50}, list[tuple[str, int]]()

    def reserve(endpoint: str, most: int) -> int:
        asked.append((endpoint, most))
        return min(most, 15)

    take = worker.targets.taking(held, reserve)
    got = [take(Lane(0, endpoint, "", 128), 90) for endpoint in ("endpoint", "other", "other", "elsewhere")]
    assert got == [15, 5, 0, 15]
    assert asked == [("endpoint", 20), ("other", 5), ("other", 0), ("elsewhere", 90)]
