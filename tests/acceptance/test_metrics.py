"""Metrics of real processes in the format of Prometheus: a worker group, the API, and a scheduler."""

import re
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from app.dev.process.child import Child
from app.dev.process.ports import free_port
from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from schema.states import Trigger
from tests.acceptance.jobs import run_job, wait_for_end
from tests.slow_scrapers import slow_scrapers
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

HELD = 9
PROCESSES = 3


DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
# Begin later, says the document.
LATER = {"worker_jobs_started_total", "worker_jobs_completed_total", "scheduler_chore_changes_total"}
OUTBOX = {
    *("tasks_failed_total", "outbox_ends_handled_total", "outbox_effects_failed_total"),
    *("notification_events_total", "notifications_failed_total"),
}


class Scrape:
    """Samples of one scrape, with sums over the labels of a series."""

    def __init__(self, answer: requests.Response) -> None:
        answer.raise_for_status()
        self.samples = [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]

    def sum(self, name: str, **labels: str) -> float:
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == f"task_executor_{name}" and labels.items() <= sample.labels.items()
        )

    def lacks(self, *names: str) -> set[str]:
        """Return the given names without any sample, not even 0."""
        return {f"task_executor_{name}" for name in names} - {sample.name for sample in self.samples}


def scrape(port: int) -> Scrape:
    return Scrape(requests.get(f"http://127.0.0.1:{port}/metrics", timeout=30))


def listener(worker: Child, port: int) -> psutil.Process | None:
    """Return the process of the group that listens on the port."""
    for process in psutil.Process(worker.pid).children(recursive=True):
        for found in process.net_connections(kind="tcp"):
            if found.status == psutil.CONN_LISTEN and found.laddr.port == port:
                return process
    return None


def create(api: Api, endpoint: str, key: str) -> str:
    body = {"endpoint": endpoint, "trigger": "IMMEDIATE", "idempotency_key": key, "input": {}}
    execution_id: str = api.post("/jobs", body)["execution"]["execution_id"]
    return execution_id


@pytest.fixture(scope="module")
def stack(shared_stack: Stack) -> Stack:
    """A stack with two processes of the API; each test starts its own workers."""
    shared_stack.web(TE_WEB_WORKERS="2")
    return shared_stack


@pytest.fixture
def api(stack: Stack, shared_api: Api) -> Api:
    return shared_api


@pytest.fixture
def endpoints(api: Api, receiver: Receiver) -> Iterator[None]:
    for name, path in (("good", "/ok/good"), ("bad", "/status/400"), ("held", "/held/held")):
        spec = {"url": f"{receiver.base_url}{path}", "method": "POST", "timeout_ms": 60_000}
        api.post("/endpoints", {"name": name, "type": "HTTP", "spec": spec})
    yield
    receiver.release("/held/held")


def test_each_process_serves_its_documented_counters_from_its_start(stack: Stack, api: Api, receiver: Receiver) -> None:
    of_worker, of_scheduler = free_port(), free_port()
    worker = stack.worker(TE_WORKER_METRICS_ADDR=f"127.0.0.1:{of_worker}")
    scheduler = stack.scheduler(TE_SCHEDULER_METRICS_ADDR=f"127.0.0.1:{of_scheduler}")
    try:
        with closing(api_scraper(api)) as session:
            check_first_scrapes(session, stack.url, of_worker, of_scheduler)
            check_requests_and_jobs(api, receiver, session)
        check_chores(of_scheduler)
    finally:
        for child in (worker, scheduler):
            stack.terminate(child.name)  # the other test counts jobs of its own workers


def check_first_scrapes(session: requests.Session, url: str, of_worker: int, of_scheduler: int) -> None:
    """Each process reports its counters before the first count."""
    web = Scrape(session.get(f"{url}/metrics", timeout=30))
    scheduler = eventually(lambda: scheduler_scrape(of_scheduler), what="the first run of chores")
    worker = eventually(lambda: worker_scrape(of_worker), what="the first scrape of the worker")
    names = documented_counters()
    of_workflows = {name for name in names if name.startswith("workflow")}
    of_web = {"http_requests_total", "tasks_scheduled_total", "statement_retries_total"} | of_workflows
    for_all = OUTBOX | of_workflows
    for_scheduler = {name for name in names if name.startswith(("scheduler_", "notification"))} | for_all
    for_worker = {name for name in names if name.startswith(("worker_", "breaker_", "tasks_executed"))} | for_all
    assert of_web | for_scheduler | for_worker == names, "a counter of no process"
    assert web.lacks(*of_web) == set()
    assert scheduler.lacks("statement_retries_total", *for_scheduler - LATER) == set()
    assert worker.lacks("statement_retries_total", *for_worker - LATER) == set()
    assert web.sum("http_requests_total", status_class="5xx", route="/jobs", method="POST") == 0
    routes = {sample.labels.get("route") for sample in web.samples if sample.labels.get("status_class") == "5xx"}
    assert {"none", "/jobs", "/jobs/{job_id}", "/executions"} <= routes
    assert {sample.labels["to"] for sample in worker.samples if "to" in sample.labels} == {
        "open",
        "half_open",
        "closed",
    }


def check_requests_and_jobs(api: Api, receiver: Receiver, session: requests.Session) -> None:
    api.post("/endpoints", {"name": "counted", "type": "HTTP", "spec": {"url": receiver.url("/ok/counted")}})
    for number in range(10):
        created = create(api, "counted", f"counted-{number}")
    create(api, "counted", "counted-0")
    batch = [{"endpoint": "counted", "trigger": "IMMEDIATE", "idempotency_key": f"b{n}", "input": {}} for n in range(5)]
    api.post("/jobs/batch", {"jobs": batch})
    assert requests.get(f"{api.base_url}/metrics", timeout=30).status_code == 401
    # Each request opens a new connection. Either API process responds, with the metrics of both processes.
    scrapes = [eventually(lambda: api_scrape(api.base_url, session)) for _ in range(8)]
    wait_for_end(api, created)
    for merged in scrapes:
        assert merged.sum("tasks_scheduled_total", trigger="IMMEDIATE") == 15
        assert merged.sum("http_requests_total", route="/jobs", method="POST", status_class="2xx") == 11
        assert merged.sum("http_request_duration_seconds_count", route="/jobs", method="POST") == 11
        assert merged.sum("http_requests_total", route="/metrics", status_class="4xx") == 1
        assert {sample.labels["trigger"] for sample in merged.samples if "trigger" in sample.labels} == set(Trigger)
        assert merged.sum("build_info") == 1
        assert not [sample for sample in merged.samples if created in sample.labels.values()]


def check_chores(port: int) -> None:
    chores = eventually(lambda: scheduler_scrape(port), what="the first run of chores")
    assert chores.sum("scheduler_chore_last_success_timestamp_seconds", chore="promote") > 1.7e9
    failing = {sample.labels["reason"] for sample in chores.samples if "reason" in sample.labels}
    assert {"expire", "repairs"} < failing, "failure series are missing before the first failure"
    waiting = eventually(lambda: waiting_scrape(port), what="the metrics read from the database")
    assert waiting.sum("breakers", state="open") == waiting.sum("queues_unserved") == 0


def api_scraper(api: Api) -> requests.Session:
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {api.key}"
    session.headers["Connection"] = "close"
    return session


def api_scrape(url: str, session: requests.Session) -> Scrape | None:
    merged = Scrape(session.get(f"{url}/metrics", timeout=30))
    is_complete = merged.sum("processes") == 2 and merged.sum("tasks_scheduled_total") >= 15
    return merged if is_complete and merged.sum("http_requests_total", status_class="4xx") else None


def waiting_scrape(port: int) -> Scrape | None:
    found = scrape(port)
    return found if any(sample.name == "task_executor_queues_unserved" for sample in found.samples) else None


def scheduler_scrape(port: int) -> Scrape | None:
    try:
        found = scrape(port)
    except requests.ConnectionError:
        return None
    return found if found.sum("scheduler_chore_duration_seconds_count", chore="promote") else None


def documented_counters() -> set[str]:
    rows = DOCUMENT.read_text().partition("## All series")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)(?:\{[\w,]+\})?` \| counter \|", rows, re.MULTILINE))


def worker_scrape(port: int) -> Scrape | None:
    try:
        return scrape(port)
    except requests.ConnectionError:
        return None


def test_worker_group_is_scraped_as_one_with_slow_scrapers_and_after_a_kill(
    shared_database: Database, stack: Stack, api: Api, receiver: Receiver, endpoints: None
) -> None:
    port = free_port()
    options = {"TE_WORKER_METRICS_ADDR": f"127.0.0.1:{port}", "TE_WORKER_MAX_CONCURRENT": "2"}
    worker = stack.worker("-p", str(PROCESSES), processes=PROCESSES, TE_METRICS_MAX_ENDPOINTS="2", **options)
    eventually(lambda: listener(worker, port), what="a process that listens")
    with slow_scrapers(port):
        for number in range(20):
            assert run_job(api, "good", f"good-{number}")["status"] == "SUCCESS"
        assert run_job(api, "bad", "bad")["status"] == "FAILED"
        eventually(
            lambda: scrape(port).sum("worker_jobs_completed_total") == 21,
            what="the totals of the group in one response",
        )
    for number in range(HELD):
        create(api, "held", f"held-{number}")
    running = text("SELECT count(DISTINCT worker_id) AS n FROM executions WHERE status = 'RUNNING'")
    eventually(lambda: shared_database.fetch(running)[0].n == PROCESSES, what="deliveries in each process")

    merged = eventually(lambda: complete(scrape(port)), what="the counts of each process")
    assert merged.sum("worker_jobs_completed_total", kind="HTTP", endpoint="good", outcome="SUCCESS") == 20
    assert merged.sum("worker_jobs_completed_total", kind="HTTP", endpoint="bad", outcome="FAILED") == 1
    assert merged.sum("worker_jobs_started_total", endpoint="held") == 0, "the limit on endpoints is exceeded"
    assert merged.sum("worker_jobs_started_total", endpoint="other") == merged.sum("worker_jobs_in_flight")
    assert merged.sum("execution_delay_seconds_count") == merged.sum("worker_jobs_started_total")
    assert merged.sum("worker_job_duration_seconds_count", outcome="SUCCESS") == 20
    assert merged.sum("tasks_executed_total") == merged.sum("worker_complete_batch_size_sum") - 1 == 20
    assert merged.sum("tasks_failed_total", reason="attempt") == 1
    assert (
        merged.lacks("worker_leases_lost_total", "worker_stale_results_total", "worker_claims_released_total") == set()
    )
    assert merged.sum("worker_slots") == 2 * PROCESSES
    assert merged.sum("worker_slots_in_use") == merged.sum("worker_jobs_in_flight")

    # After the kill Dramatiq stops the other processes, which finish their deliveries first.
    first = listener(worker, port)
    assert first is not None
    first.send_signal(signal.SIGKILL)
    after = eventually(lambda: taken_over(port), what="another process that listens")
    for name in ("worker_jobs_completed_total", "worker_jobs_started_total", "execution_delay_seconds_count"):
        assert after.sum(name) >= merged.sum(name), f"{name} has decreased"
    assert after.sum("worker_jobs_in_flight") < merged.sum("worker_jobs_in_flight")


def complete(merged: Scrape) -> Scrape | None:
    """Return the scrape if it has the deliveries in flight of every process."""
    started, completed = merged.sum("worker_jobs_started_total"), merged.sum("worker_jobs_completed_total")
    is_complete = started - completed == merged.sum("worker_jobs_in_flight") >= PROCESSES
    return merged if is_complete and merged.sum("processes") == PROCESSES else None


def taken_over(port: int) -> Scrape | None:
    try:
        merged = scrape(port)
    except requests.RequestException:
        return None
    return merged if merged.sum("processes") == PROCESSES - 1 else None
