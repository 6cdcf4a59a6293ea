"""What the demo shows at its end."""

from collections import Counter

from app.dev.demo import arrivals
from app.dev.demo.arrivals import Arrival
from app.dev.demo.job import DemoJob
from app.dev.stack.runner import Stack
from app.dev.stack.targets import Targets
from app.dev.terminal import Terminal

_SHOWN_CHARACTERS = 4


def show_table(jobs: list[DemoJob], terminal: Terminal) -> None:
    """Print a row for each job."""
    terminal.heading("Result")
    header = ["JOB", "TRANSPORT", "TRIGGER", "STATUS", "ATTEMPTS", "LATE (ms)"]
    rows = [
        [job.job_id, job.transport, job.trigger, job.status, str(len(job.attempts)), _number(job.lateness_ms)]
        for job in jobs
    ]
    terminal.table(header, rows, right=(4, 5))
    terminal.line(terminal.dim("  late: start of the first attempt minus the time the job was due"))


def show_arrivals(jobs: list[DemoJob], targets: Targets, secret: str, terminal: Terminal) -> list[str]:
    """Print what arrived and return what did not: the order ids of those jobs."""
    wanted = Counter(job.transport for job in jobs)
    found = {
        "HTTP": ("HTTP, as the receiver got it", arrivals.http(targets)),
        "KAFKA": ("Kafka, read back with confluent_kafka", arrivals.kafka(targets, wanted["KAFKA"])),
        "REDIS_STREAM": ("Redis, read back with redis-py", arrivals.redis_stream(targets)),
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


def show_hints(stack: Stack, terminal: Terminal, job: DemoJob | None = None) -> None:
    """Print how to go on by hand, in one piece: processes may be writing to the terminal as well."""
    key = stack.api.key
    lines = [
        terminal.bold("\nTry it yourself"),
        f"  API  {stack.url}",
        f"  key  {key}",
        "",
        f"  export TE='{stack.url}' AUTH='Authorization: Bearer {key}'",
        *(f"  {curl}" for curl in _curls(job)),
        "",
        terminal.dim(f"  logs of the processes: {stack.logs}/"),
    ]
    terminal.line("\n".join(lines))


def _curls(job: DemoJob | None) -> list[str]:
    curl = 'curl -sS -H "$AUTH"'
    if job is None or job.execution is None:
        return [f"{curl} $TE/{path}" for path in ("endpoints", "jobs", "payload-specs")]
    body = (
        f'{{"endpoint":"{job.endpoint}","trigger":"IMMEDIATE","idempotency_key":"mine-1",'
        '"input":{"order_id":"mine-1","amount":9.5}}'
    )
    return [
        f"{curl} $TE/jobs -H 'Content-Type: application/json' -d '{body}'",
        f'{curl} "$TE/jobs?limit=5"',
        f"{curl} $TE/executions/{job.execution['execution_id']}/attempts",
    ]


def _show(message: Arrival, secret: str, terminal: Terminal) -> None:
    masked = secret[:_SHOWN_CHARACTERS] + "•" * (len(secret) - _SHOWN_CHARACTERS)
    terminal.line(f"  {message.title}")
    for name, value in message.headers:
        terminal.line(f"    {terminal.dim(f'{name}:')} {value.replace(secret, masked)}")
    if message.body:
        terminal.line(f"    {message.body.replace(secret, masked)}")


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
