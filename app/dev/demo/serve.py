"""Development stack without scripted jobs, and hints for manual requests."""

import os
import time

from rich.text import Text

from app.dev.demo.demo_job import DemoJob
from app.dev.stack.programs import preferred_port, product_environment
from app.dev.stack.receiver_targets import local_targets
from app.dev.stack.runner import Stack
from app.dev.terminal import Part, Terminal

_NAME_WIDTH = 12


def serve(terminal: Terminal) -> int:
    """Run the stack until Ctrl-C, with the output of its processes on the terminal."""
    terminal.line(("Task Executor", "bold"), ", development stack")
    given = os.environ.get("TE_DATABASE_URL") or None
    if given is None:
        terminal.line("TE_DATABASE_URL is not set: using a new PostgreSQL whose data is removed at the end.")
    elif not os.environ.get("TE_SECRET_ENCRYPTION_KEY"):
        terminal.line(
            "TE_SECRET_ENCRYPTION_KEY is not set: this run uses a random key. It cannot decrypt secrets in your\n"
            "database from other runs, and later runs cannot decrypt secrets from this run."
        )
    terminal.heading("Starting")
    with (
        local_targets(terminal.step) as targets,
        Stack(
            database_url=given,
            step=terminal.step,
            port=preferred_port(),
            env=product_environment(),
            echo=lambda name, line: terminal.line((name.ljust(_NAME_WIDTH), "dim"), f" {line}"),
        ) as stack,
    ):
        with terminal.step("an API key, as flask --app app api-keys create demo makes it"):
            _ = stack.api
        show_hints(stack, terminal)
        terminal.line(
            ("Targets for deliveries\n", "bold"),
            f"  HTTP   {targets.receiver.base_url}/ok   (received requests: GET /_requests)\n"
            f"  Kafka  {targets.kafka.bootstrap}\n"
            f"  Redis  {targets.valkey.url}",
        )
        stay(stack, terminal)
        terminal.heading("Stopping")
    terminal.line("  all processes and servers are stopped")
    return 0


def stay(stack: Stack, terminal: Terminal) -> None:
    """Wait for Ctrl-C; raises ChildError if a process dies."""
    try:
        terminal.line(("\nRunning. Ctrl-C stops everything.", "bold"))
        while True:
            stack.check()
            time.sleep(0.5)
    except KeyboardInterrupt:
        terminal.line()


def show_hints(stack: Stack, terminal: Terminal, job: DemoJob | None = None) -> None:
    """Print the address, a key and some requests at once, because processes write to the terminal too."""
    key = stack.api.key
    lines: list[Part] = [
        Text("\nTry it yourself", "bold"),
        f"  API  {stack.url}",
        f"  key  {key}",
        "",
        f"  export TE='{stack.url}' AUTH='Authorization: Bearer {key}'",
        *(f"  {curl}" for curl in _curls(job)),
        "",
        Text(f"  logs of the processes: {stack.logs}/", "dim"),
    ]
    terminal.line(Text("\n").join(Text.assemble(line) for line in lines))


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
