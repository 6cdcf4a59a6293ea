"""The functions of ours that a job passes, from its creation to the row that says SUCCESS: not too many."""

import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import dramatiq
import pytest
from dramatiq import Worker

import tests.worker_environment  # noqa: F401 - first
from actors import build
from app.dev.receiver import Receiver
from app.kernel.config import Settings
from app.kernel.db import Database
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import NewJob
from brokers.consumer import DELIVER
from schema.states import Trigger
from tests import rows
from tests.waiting import eventually

MOST_FUNCTIONS = 75
JOBS = 5
RunJob = Callable[[], None]
ROOT = Path(__file__).parents[3]
COUNTED = tuple(f"{ROOT}/{place}/" for place in ("actors", "app", "brokers", "schema"))
# Catalogue and dispatchers do what other queues leave to the user's code, and `formats` is how values are written.
OTHERS = ("actors/dispatch/", "app/web/", "app/catalog/", "app/dev/", "app/kernel/formats.py")
LEFT_OUT = tuple(f"{ROOT}/{place}" for place in OTHERS)
# What goes round whether there is a job or not.
IDLE_THREADS = {"te-heartbeat", "te-watchdog", "te-stalled", "te-listener", "te-flow"}
LOOKS = {
    "Discovery.at",
    "Discovery.step",
    "Discovery._look",
    "look",
    "_due",
    "_reached",
    "Lanes.since",
    "Lanes.looked",
    "Lanes.swept",
}
IDLE_FUNCTIONS = {"DeliveryLoop._sweep", "DeliveryLoop._show_signs", "BackgroundThread.show_sign"} | LOOKS
IDLE_FUNCTIONS |= {"_ping_idle_connections.<locals>.ping"}  # on a slow machine one is idle before each job


class Recorder:
    """Notes in which jobs each function of ours is called, by file."""

    def __init__(self) -> None:
        self.job: int | None = None  # the one under way, if it is recorded
        self.jobs: dict[tuple[str, str], set[int]] = defaultdict(set)

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Take a call; a profile function for `setprofile`."""
        code = frame.f_code
        if self.job is None or event != "call" or code.co_name.startswith("<"):
            return
        if not code.co_filename.startswith(COUNTED) or code.co_filename.startswith(LEFT_OUT):
            return
        if threading.current_thread().name not in IDLE_THREADS and code.co_qualname not in IDLE_FUNCTIONS:
            self.jobs[code.co_filename.removeprefix(f"{ROOT}/"), code.co_qualname].add(self.job)

    @property
    def functions(self) -> dict[str, set[str]]:
        """What most jobs pass: a rare call, such as a poll that finds nothing, is not on the way of a job."""
        found: dict[str, set[str]] = defaultdict(set)
        for (file, name), jobs in self.jobs.items():
            if len(jobs) > JOBS // 2:
                found[file].add(name)
        return found

    def count(self) -> int:
        return sum(len(names) for names in self.functions.values())

    def __str__(self) -> str:
        listed = [f"  {file}: {', '.join(sorted(names))}" for file, names in sorted(self.functions.items())]
        return f"{self.count()} functions in {len(self.functions)} files:\n" + "\n".join(listed)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Listens on every thread that starts from now on."""
    recorder = Recorder()
    threading.setprofile(recorder.note)
    yield recorder
    threading.setprofile(None)  # type: ignore[arg-type]


@pytest.fixture
def run_job(database: Database, database_url: str, receiver: Receiver, recorder: Recorder) -> Iterator[RunJob]:
    """Start a worker as `actors` does; creates a job that is due at once, and waits until it has succeeded."""
    rows.add_endpoint(database, "way", spec={"url": receiver.url("/ok/way"), "method": "POST"})
    settings = Settings(database_url=database_url, worker_poll_interval_ms=10)
    broker, deliveries = build(settings)
    dramatiq.actor(deliveries.start, broker=broker, actor_name=DELIVER, queue_name="http")
    worker = Worker(broker, worker_threads=2, worker_timeout=100)
    worker.start()
    creator = Creator(database, shards=settings.shards(cockroach=database.is_cockroach), look_ahead_ms=5000)

    def run_job() -> None:
        new = NewJob(endpoint="way", trigger=Trigger.IMMEDIATE, input={"n": 1})
        sys.setprofile(recorder.note)
        try:
            created = creator.create(new)
        finally:
            sys.setprofile(None)
        assert created.job.execution is not None
        execution_id = created.job.execution.execution_id
        eventually(lambda: rows.execution(database, execution_id).status == "SUCCESS")
        assert broker.process.finalizer.flush(60)

    yield run_job
    worker.stop()


def test_a_job_passes_few_functions(run_job: RunJob, recorder: Recorder) -> None:
    run_job()  # fills the caches
    # A worker thread may still be at its end when the result is written: what one job misses the next one shows.
    for recorder.job in range(JOBS):
        run_job()
    recorder.job = None
    assert recorder.count() <= MOST_FUNCTIONS, str(recorder)
