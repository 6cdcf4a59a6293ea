"""Development stack without scripted jobs, and hints for manual requests."""

import os
import sys
import time
from pathlib import Path
from shlex import quote

from rich.text import Text

from app.dev.demo.demo_job import DemoJob
from app.dev.stack.programs import preferred_port, product_environment
from app.dev.stack.receiver_targets import LocalTargets, local_targets
from app.dev.stack.runner import Stack
from app.dev.terminal import Part, Terminal

INSECURE_COOKIES = {"TE_CONSOLE_COOKIES": "insecure"}  # the stack speaks plain HTTP
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
            env=INSECURE_COOKIES | product_environment(),
            echo=lambda name, line: terminal.line((name.ljust(_NAME_WIDTH), "dim"), f" {line}"),
        ) as stack,
    ):
        with terminal.step("an API key, as flask --app app api-keys create demo makes it"):
            _ = stack.api
        show_hints(stack, targets, terminal)
        show_console(stack, terminal)
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


def show_console(stack: Stack, terminal: Terminal) -> None:
    """Print the address of the console and a link that signs in once, within a minute."""
    terminal.line(
        ("\nConsole\n", "bold"),
        f"  {stack.url}/console\n",
        f"  {stack.console_link()}\n",
        ("  signs in once, within a minute; another: ", "dim"),
        (f'echo "$KEY" | flask --app app console link --url {stack.url}', "dim"),
    )


def stay(stack: Stack, terminal: Terminal) -> None:
    """Wait for Ctrl-C; raises ChildError if a process dies."""
    try:
        terminal.line(("\nRunning. Ctrl-C stops everything.", "bold"))
        while True:
            stack.check()
            time.sleep(0.5)
    except KeyboardInterrupt:
        terminal.line()


def show_hints(stack: Stack, targets: LocalTargets, terminal: Terminal, job: DemoJob | None = None) -> None:
    """Print the environment of README and docs/reference/cli.md and some requests at once: processes write here too."""
    lines: list[Part] = [
        Text("\nTry it yourself: copy these lines into a second terminal", "bold"),
        *exports(stack, targets),
        "",
        *_requests(job),
        "",
        Text(f"logs of the processes: {stack.logs}/", "dim"),
    ]
    terminal.line(Text("\n").join(Text.assemble(line) for line in lines))


def exports(stack: Stack, targets: LocalTargets) -> list[str]:
    """Return the lines of shell with which each command of README and docs/reference/cli.md runs against the stack."""
    product = {name: stack.env[name] for name in ("TE_DATABASE_URL", "TE_SECRET_ENCRYPTION_KEY")}
    values = {"TE": stack.url, "KEY": stack.api.key, "RECEIVER": targets.receiver.base_url} | product
    return [
        f'export PATH={quote(str(Path(sys.executable).parent))}:"$PATH"',
        *(f"export {name}={quote(value)}" for name, value in values.items()),
        """te() { curl -sS -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' "$@"; }""",
    ]


def _requests(job: DemoJob | None) -> list[str]:
    flask = "flask --app app status"
    if job is None or job.execution is None:
        return [*(f"te $TE/{path}" for path in ("endpoints", "jobs", "payload-specs")), flask]
    body = (
        f'{{"endpoint":"{job.endpoint}","trigger":"IMMEDIATE","idempotency_key":"mine-1",'
        '"input":{"order_id":"mine-1","amount":9.5}}'
    )
    return [
        f"te $TE/jobs -d '{body}'",
        'te "$TE/jobs?limit=5"',
        f"te $TE/executions/{job.execution['execution_id']}/attempts",
        flask,
    ]
