"""Metrics of real processes, as Prometheus reads them: of a worker group, of the API, of a scheduler."""

import signal
from collections.abc import Iterator
from contextlib import closing

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


class Scrape:
    """What an address tells, and how the values of a series add up."""

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
        """Return which of these nothing is told of, not even 0."""
        return {f"task_executor_{name}" for name in names} - {sample.name for sample in self.samples}


def scrape(port: int) -> Scrape:
    return Scrape(requests.get(f"http://127.0.0.1:{port}/metrics", timeout=30))


def listener(worker: Child, port: int) -> psutil.Process | None:
    """Return the process of a group that has the address."""
    for process in psutil.Process(worker.pid).children(recursive=True):
        for found in process.net_connections(kind="tcp"):
            if found.status == psutil.CONN_LISTEN and found.laddr.port == port:
                return process
    return None


def create(api: Api, endpoint: str, key: str) -> str:
    body = {"endpoint": endpoint, "trigger": "IMMEDIATE", "idempotency_key": key, "input": {}}
    execution_id: str = api.post("/jobs", body)["execution"]["execution_id"]
    return execution_id


@pytest.fixture
def endpoints(stack: Stack, api: Api, receiver: Receiver) -> Iterator[None]:
    stack.web(TE_WEB_WORKERS="2")
    for name, path in (("good", "/ok/good"), ("bad", "/status/400"), ("held", "/held/held")):
        spec = {"url": f"{receiver.base_url}{path}", "method": "POST", "timeout_ms": 60_000}
        api.post("/endpoints", {"name": name, "type": "HTTP", "spec": spec})
    yield
    receiver.release("/held/held")


def test_a_group_is_scraped_as_one_whatever_its_clients_do_and_whoever_dies(
    database: Database, stack: Stack, api: Api, receiver: Receiver, endpoints: None
) -> None:
    port = free_port()
    options = {"TE_WORKER_METRICS_ADDR": f"127.0.0.1:{port}", "TE_WORKER_MAX_CONCURRENT": "2"}
    worker = stack.worker("-p", str(PROCESSES), processes=PROCESSES, TE_METRICS_MAX_ENDPOINTS="2", **options)
    eventually(lambda: listener(worker, port), what="a process that answers")
    with slow_scrapers(port):
        for number in range(20):
            assert run_job(api, "good", f"good-{number}")["status"] == "SUCCESS"
        assert run_job(api, "bad", "bad")["status"] == "FAILED"
        eventually(lambda: scrape(port).sum("worker_jobs_completed_total") == 21, what="all in one answer")
    for number in range(HELD):
        create(api, "held", f"held-{number}")
    running = text("SELECT count(DISTINCT worker_id) AS n FROM executions WHERE status = 'RUNNING'")
    eventually(lambda: database.fetch(running)[0].n == PROCESSES, what="deliveries in each process")

    told = eventually(lambda: all_told(scrape(port)), what="what each process has counted")
    assert told.sum("worker_jobs_completed_total", kind="HTTP", endpoint="good", outcome="SUCCESS") == 20
    assert told.sum("worker_jobs_completed_total", kind="HTTP", endpoint="bad", outcome="FAILED") == 1
    assert told.sum("worker_jobs_started_total", endpoint="held") == 0, "the bound on endpoints"
    assert told.sum("worker_jobs_started_total", endpoint="other") == told.sum("worker_jobs_in_flight")
    assert told.sum("execution_delay_seconds_count") == told.sum("worker_jobs_started_total")
    assert told.sum("worker_job_duration_seconds_count", outcome="SUCCESS") == 20
    assert told.sum("tasks_executed_total") == told.sum("worker_conclude_batch_size_sum") - 1 == 20
    assert told.sum("tasks_failed_total", reason="attempt") == 1
    assert told.lacks("worker_leases_lost_total", "worker_stale_results_total", "worker_claims_released_total") == set()
    assert told.sum("worker_slots") == 2 * PROCESSES
    assert told.sum("worker_slots_in_use") == told.sum("worker_jobs_in_flight")

    # Dramatiq stops the others as well, which wait for their deliveries first.
    first = listener(worker, port)
    assert first is not None
    first.send_signal(signal.SIGKILL)
    after = eventually(lambda: taken_over(port), what="another process that answers")
    for name in ("worker_jobs_completed_total", "worker_jobs_started_total", "execution_delay_seconds_count"):
        assert after.sum(name) >= told.sum(name), f"{name} has become less"
    assert after.sum("worker_jobs_in_flight") < told.sum("worker_jobs_in_flight")


def all_told(told: Scrape) -> Scrape | None:
    """Return it once it says of each process what is in flight."""
    started, completed = told.sum("worker_jobs_started_total"), told.sum("worker_jobs_completed_total")
    is_whole = started - completed == told.sum("worker_jobs_in_flight") >= PROCESSES
    return told if is_whole and told.sum("processes") == PROCESSES else None


def taken_over(port: int) -> Scrape | None:
    try:
        told = scrape(port)
    except requests.RequestException:
        return None
    return told if told.sum("processes") == PROCESSES - 1 else None


def test_the_api_and_the_scheduler_tell_what_they_do(stack: Stack, api: Api, endpoints: None) -> None:
    port = free_port()
    stack.scheduler(TE_SCHEDULER_METRICS_ADDR=f"127.0.0.1:{port}")
    stack.worker()
    for number in range(10):
        created = create(api, "good", f"counted-{number}")
    create(api, "good", "counted-0")
    batch = [{"endpoint": "good", "trigger": "IMMEDIATE", "idempotency_key": f"b{n}", "input": {}} for n in range(5)]
    api.post("/jobs/batch", {"jobs": batch})
    assert requests.get(f"{stack.url}/metrics", timeout=30).status_code == 401
    with closing(api_scraper(api)) as session:
        # A connection of its own each time: whichever of the two processes answers tells of both.
        answers = [eventually(lambda: api_told(stack.url, session)) for _ in range(8)]
    wait_for_end(api, created)
    for told in answers:
        assert told.sum("tasks_scheduled_total", trigger="IMMEDIATE") == 15
        assert told.sum("http_requests_total", route="/jobs", method="POST", status_class="2xx") == 11
        assert told.sum("http_request_duration_seconds_count", route="/jobs", method="POST") == 11
        assert told.sum("http_requests_total", route="/metrics", status_class="4xx") == 1
        assert {sample.labels["trigger"] for sample in told.samples if "trigger" in sample.labels} == set(Trigger)
        assert told.sum("build_info") == 1
        assert not [sample for sample in told.samples if created in sample.labels.values()]
    chores = eventually(lambda: scheduler_told(port), what="the first run of chores")
    assert chores.sum("scheduler_chore_last_success_timestamp_seconds", chore="promote") > 1.7e9
    failing = {sample.labels["reason"] for sample in chores.samples if "reason" in sample.labels}
    assert {"expire", "repairs"} < failing, "also before the first one has failed"
    told = eventually(lambda: waiting_told(port), what="what the database tells")
    assert told.sum("breakers", state="open") == told.sum("queues_unserved") == 0


def api_scraper(api: Api) -> requests.Session:
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {api.key}"
    session.headers["Connection"] = "close"
    return session


def api_told(url: str, session: requests.Session) -> Scrape | None:
    told = Scrape(session.get(f"{url}/metrics", timeout=30))
    is_whole = told.sum("processes") == 2 and told.sum("tasks_scheduled_total") >= 15
    return told if is_whole and told.sum("http_requests_total", status_class="4xx") else None


def waiting_told(port: int) -> Scrape | None:
    told = scrape(port)
    return told if any(sample.name == "task_executor_queues_unserved" for sample in told.samples) else None


def scheduler_told(port: int) -> Scrape | None:
    try:
        told = scrape(port)
    except requests.ConnectionError:
        return None
    return told if told.sum("scheduler_chore_duration_seconds_count", chore="promote") else None
