"""Rate at which a backlog of HTTP deliveries drains."""

from collections.abc import Iterator

from app import db
from benchmarks import baseline
from benchmarks.arrivals import Arrivals
from benchmarks.report import Figure
from benchmarks.system import System
from tests import rows

BODY = {"user_id": "u_1", "text": "hello"}


def measure(system: System, arrivals: Arrivals, executions: int, samples: int) -> Iterator[Figure]:
    """Fill both queues, then start the worker of one, then of the other."""
    del samples
    ours = drain_ours(system, arrivals, executions)
    yield Figure("HTTP deliveries, 2 processes", "1/s", ours, drain_yardstick(system, arrivals, executions))


def drain_ours(system: System, arrivals: Arrivals, executions: int) -> float:
    """Deliver a backlog from the database."""
    database = db.connect(
        system.stack.database_url, pool_size=1, application_name="te-bench", statement_timeout_seconds=120
    )
    spec = {"url": arrivals.url, "method": "POST", "body_template": {"user_id": "{{input.user_id}}", "text": "hello"}}
    rows.add_endpoint(database, "drain", spec=spec)
    for _ in range(0, executions, 1000):
        rows.add_executions(database, 1000, endpoint="drain", input_=BODY)
    database.fetch(rows.text("ANALYZE executions"))
    database.close()
    arrivals.clear()
    worker = system.worker()
    arrivals.wait_for(executions)
    worker.stop(30)
    return arrivals.rate()


def drain_yardstick(system: System, arrivals: Arrivals, executions: int) -> float:
    """Deliver the same number of messages from Redis."""
    broker = baseline.RedisBroker(url=system.valkey.url)
    for number in range(executions):
        broker.enqueue(baseline.post.message(arrivals.url, f"k{number}", BODY))
    arrivals.clear()
    worker = system.yardstick()
    arrivals.wait_for(executions)
    worker.stop(30)
    broker.close()
    return arrivals.rate()
