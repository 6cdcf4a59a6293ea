"""Proof of the demo: result of each job according to the API and to its receiver."""

from collections import Counter

from app.dev.demo import demo_deliveries
from app.dev.demo.demo_deliveries import DemoDelivery
from app.dev.demo.demo_job import DemoJob
from app.dev.stack.receiver_targets import LocalTargets
from app.dev.terminal import Terminal

_SHOWN_CHARACTERS = 4
_PATIENCE_SECONDS = 10.0


def show_table(jobs: list[DemoJob], terminal: Terminal) -> None:
    terminal.heading("Result")
    header = ["JOB", "TRANSPORT", "TRIGGER", "STATUS", "ATTEMPTS", "LATE (ms)"]
    rows = [
        [job.job_id, job.transport, job.trigger, job.status, str(len(job.attempts)), _number(job.lateness_ms)]
        for job in jobs
    ]
    terminal.table(header, rows, right=("ATTEMPTS", "LATE (ms)"))
    terminal.line(("  late: start of the first attempt minus the time the job was due", "dim"))


def show_deliveries(
    jobs: list[DemoJob], targets: LocalTargets, secret: str, terminal: Terminal, *, patience: float = _PATIENCE_SECONDS
) -> list[str]:
    """Print the deliveries that arrived; return the order ids of missing jobs."""
    wanted = Counter(job.transport for job in jobs)
    found = {
        "HTTP": ("HTTP, as the receiver got it", demo_deliveries.http(targets)),
        "KAFKA": ("Kafka, read back with confluent_kafka", demo_deliveries.kafka(targets, wanted["KAFKA"], patience)),
        "REDIS_STREAM": ("Redis, read back with redis-py", demo_deliveries.redis_stream(targets)),
        "NOTIFICATION": ("People, as their webhook got it", demo_deliveries.notification(targets)),
    }
    missing: list[str] = []
    for transport, (title, messages) in found.items():
        orders = {job.order_id for job in jobs if job.transport == transport}
        came = orders & {message.order_id for message in messages}
        missing += sorted(orders - came)
        terminal.heading(f"{title}: {len(came)} of {len(orders)} jobs, {len(messages)} messages")
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


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
