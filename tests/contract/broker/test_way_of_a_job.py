"""Functions of the product that a job passes, from the request that creates it to the row with SUCCESS."""

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import FrameType

import dramatiq
import pytest
from dramatiq import Worker

import tests.worker_environment  # noqa: F401 - first
from actors import build
from app.dev.receiver import Receiver
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.kernel.db import Database
from app.web.application import create_app
from brokers.consumer import DELIVER
from tests import rows
from tests.waiting import eventually

MAX_FUNCTIONS, MAX_FILES = 150, 60
MAX_COMPARABLE_FUNCTIONS = 70
JOBS = 5
ROUNDS = 5
RunJob = Callable[[], None]
ROOT = Path(__file__).parents[3]
COUNTED = tuple(f"{ROOT}/{place}/" for place in ("actors", "app", "brokers", "schema"))
# Other queues have no API with keys, deadlines and request metrics, leave the catalog and the transports to the user's
# code, and log through functions of the standard library, which are not counted.
INCOMPARABLE = (
    *("actors/dispatch/", "app/web/", "app/catalog/", "app/kernel/access/", "app/kernel/formats.py"),
    *("app/kernel/db/deadline.py", "app/kernel/audit/", "app/kernel/metrics/", "app/kernel/gathered_log.py"),
)
# Threads, and functions of other threads, that run without a job too.
IDLE_THREADS = {"te-heartbeat", "te-watchdog", "te-stalled", "te-flow"}
IDLE_FUNCTIONS = {
    *("DeliveryLoop._sweep", "DeliveryLoop._give_heartbeats", "BackgroundThread.give_heartbeat"),
    # Polls: a wake-up that names its partition needs none.
    *("poll", "Discovery.poll", "Discovery._rest_after_late", "ScanPace.pause", "KnownPartitions.found"),
    *("Discovery.skips_poll", "IdleCheck.is_quiet", "IdleCheck._check", "due_queues"),
    "ping_idle_connections.<locals>.ping",  # on a slow machine a connection is idle before each job
    *("TextFormatter.formatMessage", "_printable"),  # of another test's logging
    "_prepare",  # once for a statement and a connection: a busy machine opens a second connection
}


class Recorder:
    """Records the jobs that pass each function of the product."""

    def __init__(self) -> None:
        self.job: int | None = None  # the running job; None: nothing is recorded
        self.jobs: dict[tuple[str, str], set[int]] = defaultdict(set)

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Record a call; a profile function for `setprofile`."""
        code = frame.f_code
        if self.job is None or event != "call" or code.co_name.startswith("<"):
            return
        if not code.co_filename.startswith(COUNTED) or "/app/dev/" in code.co_filename:
            return
        if threading.current_thread().name not in IDLE_THREADS and code.co_qualname not in IDLE_FUNCTIONS:
            self.jobs[code.co_filename.removeprefix(f"{ROOT}/"), code.co_qualname].add(self.job)

    @property
    def functions(self) -> dict[str, set[str]]:
        """Functions that most jobs pass, by file; a rare call is not on the way of a job."""
        found: dict[str, set[str]] = defaultdict(set)
        for (file, name), jobs in self.jobs.items():
            if len(jobs) > JOBS // 2:
                found[file].add(name)
        return found

    def count(self, without: tuple[str, ...] = ()) -> int:
        return sum(len(names) for file, names in self.functions.items() if not (without and file.startswith(without)))

    def is_within_bounds(self) -> bool:
        is_short = self.count() <= MAX_FUNCTIONS and len(self.functions) <= MAX_FILES
        return is_short and self.count(INCOMPARABLE) <= MAX_COMPARABLE_FUNCTIONS

    def __str__(self) -> str:
        listed = [f"  {file}: {', '.join(sorted(names))}" for file, names in sorted(self.functions.items())]
        counts = f"{self.count()} functions in {len(self.functions)} files, {self.count(INCOMPARABLE)} comparable:"
        return "\n".join((counts, *listed))


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Yield a recorder of all threads that start during the test."""
    recorder = Recorder()
    threading.setprofile(recorder.note)
    yield recorder
    threading.setprofile(None)  # type: ignore[arg-type]


@pytest.fixture
def run_job(database: Database, database_url: str, receiver: Receiver, recorder: Recorder) -> Iterator[RunJob]:
    """Start a worker as `actors` does; yield a function that POSTs a job and waits until it has succeeded."""
    rows.add_endpoint(database, "way", spec={"url": receiver.url("/ok/way"), "method": "POST"})
    settings = Settings(database_url=database_url, worker_poll_interval_ms=10)
    broker, deliveries = build(settings)
    dramatiq.actor(deliveries.start, broker=broker, actor_name=DELIVER, queue_name="http")
    worker = Worker(broker, worker_threads=2, worker_timeout=100)
    worker.start()
    client = create_app(settings).test_client()
    key = api_keys.create(database, "way", [Scope.JOBS_WRITE], None)
    numbers = count()

    def run_job() -> None:
        body = {"endpoint": "way", "trigger": "IMMEDIATE", "idempotency_key": f"way-{next(numbers)}", "input": {"n": 1}}
        sys.setprofile(recorder.note)
        try:
            created = client.post("/jobs", json=body, headers={"Authorization": f"Bearer {key}"})
        finally:
            sys.setprofile(None)
        assert created.status_code == 201
        execution_id = created.json["execution"]["execution_id"]
        eventually(lambda: rows.execution(database, execution_id).status == "SUCCESS")
        assert broker.process.finalizer.flush(60)

    yield run_job
    worker.stop()


@pytest.mark.own_faults  # counts functions, and repeated statements add some
def test_job_passes_few_functions(run_job: RunJob, recorder: Recorder) -> None:
    """A busy machine adds functions, such as a second poll: the first quiet round of jobs decides."""
    run_job()  # fills the caches
    for _ in range(ROUNDS):
        recorder.jobs.clear()
        # A worker thread may still be at its end when the result is written: calls that one job misses the next shows.
        for recorder.job in range(JOBS):
            run_job()
        recorder.job = None
        if recorder.is_within_bounds():
            return
    pytest.fail(str(recorder))
