"""Spans: one trace from the request to the receiver. The collector gets no payload and delays no delivery."""

import hashlib
from collections.abc import Callable, Iterator

import pytest
from opentelemetry.trace import SpanContext, SpanKind
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from app.kernel.config import SettingError, Settings
from app.kernel.db import Database
from app.kernel.tracing.exporting import Exporting, exporting
from app.scheduler.chore import ChoreContext
from brokers.spans import WorkerSpans
from brokers.worker_process import WorkerProcess
from tests.chores import chores_of
from tests.contract.broker.delivering import Attempts
from tests.contract.tracing.collector import Collector, attributes, collecting
from tests.contract.tracing.conftest import Deliver
from tests.integration.client import Api, services
from tests.integration.registered import register
from tests.waiting import eventually

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ONCE = {"trigger": "IMMEDIATE", "idempotency_key": "once", "input": {"card": "4111-1111"}}
EVERY_DAY = {"trigger": "INTERVAL", "every": "1d"}
SAMPLED = 1
UNKNOWN = SpanContext(0, 0, is_remote=False)

Stop = Callable[[], bool]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector


@pytest.fixture
def settings(database_url: str, collector: Collector, shards: int) -> Settings:
    return Settings(database_url=database_url, queue_shards=shards, traces="otlp")


@pytest.fixture(autouse=True)
def stop(api: Api, process: WorkerProcess) -> Iterator[Stop]:
    """Record spans in both processes; the fixture stops the recording and returns whether all spans were sent."""
    (worker,) = exporting("otlp", "worker")
    process.finalizer.outcomes.spans = WorkerSpans(worker, process.worker_id)
    recording = [*services(api.app).exporting, worker]
    for exporter in recording:
        exporter.start()

    def stop() -> bool:
        are_sent = [exporter.stop() for exporter in recording]
        return all(are_sent)

    yield stop
    stop()


def test_one_trace_from_the_request_to_the_receiver(deliver: Deliver, collector: Collector, stop: Stop) -> None:
    (arrived,) = deliver("whole", ONCE, {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "rojo=1"})
    assert stop()
    request, create, claim, attempt, complete = (
        collector.one(name) for name in ("POST /jobs", "create", "claim", "attempt", "complete")
    )
    # The request span is a child of the client's span, and each later span is a child of the span before.
    assert {span.trace_id.hex() for span in (request, create, attempt)} == {TRACE}
    parents = [span.parent_span_id.hex() for span in (request, create, attempt)]
    assert parents == [SPAN, request.span_id.hex(), create.span_id.hex()]
    version, trace, parent, flags = arrived["traceparent"].split("-")
    assert (version, trace, parent, int(flags, 16) & SAMPLED) == ("00", TRACE, attempt.span_id.hex(), SAMPLED)
    assert arrived["tracestate"] == "rojo=1"
    # A statement serves many jobs, so its span starts a new trace and links to the spans of the jobs.
    assert [link.span_id for link in claim.links] == [create.span_id]
    assert [link.span_id for link in attempt.links] == [claim.span_id]
    assert [link.span_id for link in complete.links] == [attempt.span_id]
    assert collector.services == {"task-executor-web", "task-executor-worker"}

    requested = attributes(request.attributes)
    assert requested.pop("task_executor.request_id").startswith("req_")
    assert requested == {"http.request.method": "POST", "http.route": "/jobs", "http.response.status_code": 201}
    tried, execution_id = attributes(attempt.attributes), arrived["idempotency-key"]
    assert tried | {"task_executor.worker_id": ""} == {
        "task_executor.execution_id": execution_id,
        "task_executor.job_id": attributes(create.attributes)["task_executor.job_id"],
        "task_executor.attempt": 1,
        "task_executor.endpoint": "whole",
        "task_executor.endpoint_type": "HTTP",
        "task_executor.queue": "http",
        "task_executor.worker_id": "",
        "task_executor.outcome": "SUCCESS",
        "http.response.status_code": 200,
    }
    assert attempt.start_time_unix_nano <= attempt.end_time_unix_nano
    assert not any(b"4111-1111" in body for body in collector.bytes), "a span carries payload"


def test_attempts_of_a_tick_share_a_trace_that_links_to_the_request(
    deliver: Deliver, collector: Collector, stop: Stop
) -> None:
    arrived = deliver("twice", EVERY_DAY, {}, behaviour="status/500", count=2)
    assert stop()
    first, second = sorted(collector.named("attempt"), key=lambda span: span.start_time_unix_nano)
    own = hashlib.blake2b(arrived[0]["idempotency-key"].encode(), digest_size=16).hexdigest()
    assert {first.trace_id.hex(), second.trace_id.hex()} == {own}
    assert [headers["traceparent"].split("-")[2] for headers in arrived] == [first.span_id.hex(), second.span_id.hex()]
    create = collector.one("create")
    assert create.trace_id.hex() != own
    for number, span in enumerate((first, second), 1):
        assert create.span_id in {link.span_id for link in span.links}
        found = attributes(span.attributes)
        assert (found["task_executor.attempt"], found["error.type"], span.status.code) == (number, "HTTP_ERROR", 2)
        assert found["http.response.status_code"] == 500
    assert [attributes(span.attributes)["task_executor.outcome"] for span in (first, second)] == ["RETRYING", "FAILED"]


def test_scheduler_ends_the_span_of_an_attempt_whose_worker_died(
    api: Api, database: Database, process: WorkerProcess, collector: Collector, stop: Stop, settings: Settings
) -> None:
    register(api, "lost")
    api.post("/jobs", {"endpoint": "lost", **ONCE}, headers={"traceparent": f"00-{TRACE}-{SPAN}-01"})
    attempt = Attempts(process).next()
    assert process.finalizer.outcomes.spans is not None
    begun = process.finalizer.outcomes.spans.begin(attempt)
    assert begun is not None
    database.fetch(text("UPDATE executions SET worker_id = 'wrk_gone' RETURNING execution_id"))
    (scheduler,) = exporting("otlp", "scheduler")
    scheduler.start()
    chores = chores_of(
        ChoreContext(database, settings, hint=lambda _queue: None, stopping=lambda: False, exporting=[scheduler])
    )
    assert chores.reclaim_from_dead_workers().total() == 1
    assert scheduler.stop(60)
    assert stop()
    span = collector.one("attempt")
    assert (span.trace_id.hex(), span.span_id.hex()) == tuple(begun.traceparent.split("-")[1:3])
    assert span.parent_span_id == collector.one("create").span_id
    assert span.status.code == 2
    assert span.start_time_unix_nano <= span.end_time_unix_nano
    found = attributes(span.attributes)
    assert (found["error.type"], found["task_executor.worker_id"]) == ("WORKER_LOST", "wrk_gone")
    assert found["task_executor.execution_id"] == attempt.claim.execution_id
    assert "task-executor-scheduler" in collector.services


def test_unsampled_request_yields_no_spans(deliver: Deliver, collector: Collector, stop: Stop) -> None:
    (arrived,) = deliver("unsampled", ONCE, {"traceparent": f"00-{TRACE}-{SPAN}-00"})
    assert stop()
    trace, _, flags = arrived["traceparent"].split("-")[1:]
    assert (trace, int(flags, 16) & SAMPLED) == (TRACE, 0)
    # The request that registered the endpoint carried no trace, so its span is recorded.
    assert [span.name for span in collector.spans] == ["POST /endpoints"]


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> Collector:
    """A collector that hangs, and an exporter with a short queue and a timeout of an hour."""
    collector.answers.clear()
    for name, value in {"MAX_QUEUE_SIZE": "4", "MAX_EXPORT_BATCH_SIZE": "2"}.items():
        monkeypatch.setenv(f"OTEL_BSP_{name}", value)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
    return collector


def test_hanging_collector_delays_no_delivery_and_no_stop(hanging: Collector, deliver: Deliver, stop: Stop) -> None:
    for number in range(12):
        deliver(f"hangs-{number}", ONCE, {})
        if number == 5:
            assert hanging.asked.wait(60)
    assert not stop(), "stop reported success while the collector still holds the first spans"
    assert hanging.spans == []
    hanging.answers.set()
    eventually(stop)


def test_misbehaving_collector_costs_no_memory_and_floods_no_log(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    for collector.status, collector.is_endless in ((200, True), (500, False)):
        (recording,) = exporting("otlp", "worker")
        recording.start()
        for _ in range(20):
            recording.child("any", UNKNOWN, (), kind=SpanKind.INTERNAL).end()
        assert recording.stop(60)
    assert 0 < collector.bytes_taken < 20 * 16 * 2**20, "the exporter reads more of each response than sockets buffer"
    assert len(collector.named("any")) == 40
    assert len([message for message in caplog.messages if "code: 500" in message]) == 1


def test_contradictory_otel_variables_disable_only_the_spans(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "9999")
    (recording,) = exporting("otlp", "worker")
    recording.start()
    assert "OTEL_" in caplog.text
    assert not recording.child("any", UNKNOWN, (), kind=SpanKind.INTERNAL).is_recording()
    assert recording.stop()


def test_traces_without_the_sdk_are_a_setting_error() -> None:
    with pytest.raises(SettingError, match=r"pip install 'task-executor\[traces\]'"):
        Exporting("worker", libraries=["opentelemetry.nowhere.else"])
    assert exporting("off", "worker") == []
