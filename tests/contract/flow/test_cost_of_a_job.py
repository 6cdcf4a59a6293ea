"""Cost of a job of each kind: round trips, rows, index entries, WAL and calls, from its request to its end."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import dramatiq
import pytest
from dramatiq import Worker
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors import build
from app.dev.receiver import Receiver
from app.feature import Feature
from app.features import FEATURES
from app.features.workflows import Workflows
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.kernel.db import Database
from app.web.application import create_app
from brokers.consumer import DELIVER
from tests import rows
from tests.job_costs import Calls, Cost, RecordingProxy, calls_per_job, common, mark, own_log, written
from tests.waiting import eventually

pytestmark = pytest.mark.postgresql_only

# Of one job in an idle system, with its callback's job for `followed`, and with its workflow of one node for `node`.
# An update of a limiter's row writes an index entry when its page is full. Calls vary by a few: an answer may arrive in
# two parts, and Python 3.14 makes some more (1,051 where Python 3.11 made 995).
BOUNDS = {
    "plain": Cost(round_trips=4, rows=9, entries=22, wal_bytes=3_900, request_calls=792, worker_calls=136),
    "limited": Cost(round_trips=4, rows=11, entries=24, wal_bytes=4_200, request_calls=792, worker_calls=146),
    "keyed": Cost(round_trips=4, rows=11, entries=24, wal_bytes=4_200, request_calls=792, worker_calls=146),
    "breaker": Cost(round_trips=4, rows=9, entries=22, wal_bytes=3_900, request_calls=792, worker_calls=138),
    "inline": Cost(round_trips=4, rows=9, entries=22, wal_bytes=4_200, request_calls=812, worker_calls=140),
    "node": Cost(round_trips=35, rows=25, entries=55, wal_bytes=9_900, request_calls=3_250, worker_calls=203),
    "followed": Cost(round_trips=15, rows=23, entries=50, wal_bytes=10_500, request_calls=1_357, worker_calls=400),
}
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "limited": {"limits": {"max_in_flight": 200, "rate": {"count": 100_000, "per": "1s"}}},
    "keyed": {"limits": {"per_key": {"key": "{{input.tenant}}", "max_in_flight": 200}}},
    "breaker": {"breaker": {"mode": "on"}},
}
FIELDS: Mapping[str, dict[str, Any]] = {"followed": {"callbacks": {"on_success": "plain"}}}
NODE = "node"
MAX_INLINE = 1.1  # times the cost of a named endpoint, if the definition is known
ALONE = 3  # jobs, one after another: each has every message and row of its own
ROUNDS = 5
COMPARED_ROUNDS = 6  # the calls of a worker depend on how jobs fall into batches
WAL_BLOCKS_SINCE = 160_000
JITTER_BYTES = 64  # of WAL, by alignment and by the length of rows; an index entry takes more
TOGETHER = 96  # jobs at once: a call per batch or per poll is not repeated for each
SET = text(
    "UPDATE endpoints SET limits = CAST(:limits AS JSONB), breaker = CAST(:breaker AS JSONB), flow_revision = 1 "
    "WHERE name = :name"
)


def _workflow(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"name": "costs", "nodes": nodes}


class Jobs:
    """A worker and the API on one database, through a proxy that counts their messages."""

    def __init__(
        self, database: Database, url: str, proxy: RecordingProxy, features: Sequence[Feature], target: str
    ) -> None:
        self._database, self._proxy, self._numbers, self._url = database, proxy, count(), target
        self._prefix = f"{len(features):02}"
        self._calls, self._warm = Calls(), set[str]()
        settings = Settings(database_url=proxy.url(url), worker_poll_interval_ms=500)
        threading.setprofile(self._calls.note)
        broker, deliveries = build(settings, features)
        dramatiq.actor(deliveries.start, broker=broker, actor_name=DELIVER, queue_name="http")
        self._finalizer = broker.process.finalizer
        self._worker = Worker(broker, worker_threads=2, worker_timeout=100)
        self._worker.start()
        threading.setprofile(None)  # type: ignore[arg-type]
        self._client = create_app(settings).test_client()
        key = api_keys.create(database, f"key of {len(features)}", [Scope.JOBS_WRITE, Scope.JOBS_SEND], None)
        self._headers = {"Authorization": f"Bearer {key}"}

    def stop(self) -> None:
        self._worker.stop()

    def cost(self, kind: str) -> Cost:
        """Return the cost of one job."""
        self._warm_up(kind)
        sent, costs, requests = list[Counter[str]](), list[tuple[int, int, int]](), list[Counter[str]]()
        for _ in range(ALONE):
            self._proxy.sent.clear()
            since = mark(self._database)
            requests.append(self._calls.during(self._create(kind)))
            self._wait()
            sent.append(Counter(self._proxy.sent))
            costs.append(written(self._database, since))
        worker_calls = calls_per_job(common(self._drained(kind) for _ in range(2)), TOGETHER)
        written_rows, entries, wal_bytes = map(min, zip(*costs, strict=True))
        request_calls = common(requests).total()
        return Cost(common(sent).total(), written_rows, entries, wal_bytes, request_calls, worker_calls)

    def _warm_up(self, kind: str) -> None:
        """Run first jobs of a kind, which open connections and prepare statements."""
        if kind not in self._warm:
            self._warm.add(kind)
            self._drained(kind)

    def _drained(self, kind: str) -> Counter[str]:
        """Return all calls of the worker while it runs many jobs."""
        jobs = [self._job(kind) for _ in range(TOGETHER)]
        path, body = ("/workflows", _workflow(jobs)) if kind == NODE else ("/jobs/batch", {"jobs": jobs})
        self._calls.counts, self._calls.is_counting = Counter(), True
        created = self._client.post(path, json=body, headers=self._headers)
        assert created.status_code in {200, 201}, created.json
        self._wait()
        self._calls.is_counting = False
        return self._calls.counts

    def _create(self, kind: str) -> Callable[[], None]:
        body = self._job(kind)
        path, body = ("/workflows", _workflow([body])) if kind == NODE else ("/jobs", body)

        def create() -> None:
            created = self._client.post(path, json=body, headers=self._headers)
            assert created.status_code == 201, created.json

        return create

    def _job(self, kind: str) -> dict[str, Any]:
        number = next(self._numbers)
        key, data = f"{self._prefix}-{number:04}", {"n": number, "tenant": "a"}
        if kind == NODE:
            return {"name": f"n{key}", "endpoint": kind, "input": data}
        if kind == "inline":
            return {"url": self._url, "headers": {"X-Shop": "a"}, "idempotency_key": key, "body": data}
        own = {"endpoint": kind, "idempotency_key": key}
        return own | {"trigger": "IMMEDIATE", "input": data} | FIELDS.get(kind, {})

    def _wait(self) -> None:
        """Wait until all jobs, their callbacks and workflows have ended."""
        unfinished = text(
            "SELECT 1 FROM executions WHERE completed_at IS NULL UNION ALL SELECT 1 FROM execution_ends "
            "UNION ALL SELECT 1 FROM workflows WHERE ended_at IS NULL LIMIT 1"
        )
        eventually(lambda: not self._database.fetch(unfinished), what="the end of all executions")
        assert self._finalizer.flush(60)


@pytest.fixture
def endpoints(database: Database, receiver: Receiver) -> Database:
    if int(database.fetch(text("SHOW server_version_num"))[0][0]) < WAL_BLOCKS_SINCE:
        pytest.skip("pg_walinspect lists the blocks of records since PostgreSQL 16")
    database.fetch(text("CREATE EXTENSION pg_walinspect"))
    for kind in BOUNDS.keys() - {"inline"}:
        rows.add_endpoint(database, kind, spec={"url": receiver.url(f"/ok/{kind}"), "method": "POST"})
        settings = {name: json.dumps(value) for name, value in SETTINGS.get(kind, {}).items()}
        database.fetch(SET, {"name": kind, "limits": None, "breaker": None} | settings)
    return database


@contextmanager
def running(database: Database, url: str, features: Sequence[Feature], target: str) -> Iterator[Jobs]:
    with own_log(), RecordingProxy(urlsplit(url).port or 5432) as proxy:
        jobs = Jobs(database, url, proxy, features, target)
        try:
            yield jobs
        finally:
            jobs.stop()


def least_cost(jobs: Jobs, kind: str, bound: Cost, first: Cost | None = None) -> Cost:
    """Return the cost in a quiet round: a busy machine can only add, such as the statement of a heartbeat."""
    cost = first or jobs.cost(kind)
    for _ in range(ROUNDS):
        if not cost.exceeds(bound):
            break
        cost = cost.least(jobs.cost(kind))
    return cost


def compared(jobs: Jobs, kind: str, cost: Cost) -> Cost:
    """Return the cost of a job for a comparison: the usual messages, rows and entries, and the least of all else.

    A message that one of the jobs of a round lacks, such as a lost wake-up, is missing from the least; the calls of
    the worker vary by more than the comparison allows.
    """
    rounds = [cost, *(jobs.cost(kind) for _ in range(COMPARED_ROUNDS))]
    ((usual, _),) = Counter(each[:3] for each in rounds).most_common(1)
    return Cost(*usual, *reduce(Cost.least, rounds)[3:])


@pytest.mark.own_faults  # counts round trips and rows, and repeated work adds some
def test_job_of_each_kind_costs_no_more_than_its_bound_and_unused_features_nothing(
    endpoints: Database, database_url: str, receiver: Receiver
) -> None:
    target = receiver.url("/ok/inline")
    with running(endpoints, database_url, FEATURES, target) as jobs:
        costs = {kind: least_cost(jobs, kind, bound) for kind, bound in BOUNDS.items()}
        plain = compared(jobs, "plain", costs["plain"])
        inline = least_cost(jobs, "inline", Cost(*(int(MAX_INLINE * each) for each in plain)), costs["inline"])
    assert not {kind: cost for kind, cost in costs.items() if cost.exceeds(BOUNDS[kind])}, costs
    others = [feature for feature in FEATURES if feature.name != Workflows.name]
    for features in (others, ()):
        with running(endpoints, database_url, features, target) as jobs:
            alone = compared(jobs, "plain", least_cost(jobs, "plain", BOUNDS["plain"]))
        assert plain[:3] == alone[:3]
        assert abs(plain.wal_bytes - alone.wal_bytes) <= JITTER_BYTES
        assert plain.worker_calls <= alone.worker_calls * 1.05
    assert all(own <= MAX_INLINE * named for own, named in zip(inline, plain, strict=True)), (inline, plain)
