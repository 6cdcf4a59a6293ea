"""Proof of the demo: result of each job according to the API and to its receiver."""

import json
from collections import Counter
from dataclasses import dataclass

import redis
from confluent_kafka import Message

from app.dev.demo.demo_definitions import FLAKY_PATH, PEOPLE_PATH, RECEIVER_PATH, STREAM, TOPIC
from app.dev.demo.demo_job import DemoJob
from app.dev.receiver import Received
from app.dev.servers.contents import record_headers, record_text, stream_entries, topic_records
from app.dev.stack.receiver_targets import LocalTargets
from app.dev.terminal import Terminal
from app.kernel.formats import numbered

_UNINTERESTING = {"Host", "Content-Length"}
_SHOWN_CHARACTERS = 4
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class DemoDelivery:
    """Message at its receiver."""

    order_id: str
    title: str
    headers: list[tuple[str, str]]
    body: str


def show_table(jobs: list[DemoJob], terminal: Terminal) -> None:
    terminal.heading("Result")
    header = ["JOB", "TRANSPORT", "TRIGGER", "STATUS", "ATTEMPTS", "LATE (ms)"]
    late = [job.lateness_ms for job in jobs]
    rows = [
        [job.job_id, job.transport, job.trigger, job.status, str(len(job.attempts)), "-" if ms is None else str(ms)]
        for job, ms in zip(jobs, late, strict=True)
    ]
    terminal.table(header, rows, right=("ATTEMPTS", "LATE (ms)"))
    terminal.line(("  late: start of the first attempt minus the time the job was due", "dim"))


def show_deliveries(
    jobs: list[DemoJob], targets: LocalTargets, secret: str, terminal: Terminal, *, patience: float = _PATIENCE_SECONDS
) -> list[str]:
    """Print the deliveries that arrived; return the order ids of missing jobs."""
    requests, wanted = targets.receiver.record.matching, Counter(job.transport for job in jobs)
    found = {
        "HTTP": (
            "HTTP, as the receiver got it",
            [_of_request(received, "order_id") for received in requests(RECEIVER_PATH) + requests(FLAKY_PATH)],
        ),
        "KAFKA": ("Kafka, read back with confluent_kafka", _kafka(targets, wanted["KAFKA"], patience)),
        "REDIS_STREAM": ("Redis, read back with redis-py", _redis_stream(targets)),
        "NOTIFICATION": (
            "People, as their webhook got it",
            [_of_request(received, "title") for received in requests(PEOPLE_PATH)],
        ),
    }
    missing: list[str] = []
    for transport, (title, messages) in found.items():
        orders = {job.order_id for job in jobs if job.transport == transport}
        came = orders & {message.order_id for message in messages}
        missing += sorted(orders - came)
        terminal.heading(
            f"{title}: {len(came)} of {numbered(len(orders), 'job')}, {numbered(len(messages), 'message')}"
        )
        for message in messages[:1]:
            _show(message, secret, terminal)
    return missing


def _show(message: DemoDelivery, secret: str, terminal: Terminal) -> None:
    masked = secret[:_SHOWN_CHARACTERS] + "•" * (len(secret) - _SHOWN_CHARACTERS)
    terminal.line(f"  {message.title}")
    for name, value in message.headers:
        terminal.line((f"    {name}: ", "dim"), value.replace(secret, masked))
    if message.body:
        terminal.line(f"    {message.body.replace(secret, masked)}")


def _kafka(targets: LocalTargets, expected: int, patience: float) -> list[DemoDelivery]:
    """Read the topic until `expected` records arrived or `patience` seconds passed."""
    records = topic_records(targets.kafka.bootstrap, TOPIC, at_least=expected, patience=patience)
    return [_of_record(message) for message in records]


def _redis_stream(targets: LocalTargets) -> list[DemoDelivery]:
    with redis.Redis.from_url(targets.valkey.url, decode_responses=True) as client:
        return [
            DemoDelivery(fields.get("order_id", ""), f"XRANGE {STREAM}  {entry}", list(fields.items()), "")
            for entry, fields in stream_entries(client, STREAM)
        ]


def _of_request(received: Received, key: str) -> DemoDelivery:
    order = json.loads(received.body).get(key, "")
    headers = [(name, value) for name, value in received.headers.items() if name not in _UNINTERESTING]
    return DemoDelivery(order, f"{received.method} {received.path}", headers, received.body.decode())


def _of_record(message: Message) -> DemoDelivery:
    value = record_text(message.value())
    title = (
        f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}, key {message.key()!r}"
    )
    return DemoDelivery(json.loads(value).get("order_id", ""), title, list(record_headers(message).items()), value)
