"""Development stack without scripted jobs."""

import os

from app.dev.demo.hints import show_hints
from app.dev.demo.scenario import stay
from app.dev.stack.receiver_targets import LocalTargets
from app.dev.stack.runner import Stack
from app.dev.stack.stack_settings import preferred_port, product_environment
from app.dev.terminal import Terminal

_NAME_WIDTH = 12


def serve(terminal: Terminal) -> int:
    """Run the stack until Ctrl-C, with the output of its processes on the terminal."""
    terminal.line(("Task Executor", "bold"), ", development stack")
    given = os.environ.get("TE_DATABASE_URL") or None
    _announce(given, terminal)
    terminal.heading("Starting")
    with (
        LocalTargets(terminal.step) as targets,
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
        _show_targets(targets, terminal)
        stay(stack, terminal)
        terminal.heading("Stopping")
    terminal.line("  all processes and servers are stopped")
    return 0


def _announce(database_url: str | None, terminal: Terminal) -> None:
    """Print the fate of data and secrets."""
    if database_url is None:
        terminal.line("TE_DATABASE_URL is not set: using a new PostgreSQL whose data is removed at the end.")
    elif not os.environ.get("TE_SECRET_ENCRYPTION_KEY"):
        terminal.line(
            "TE_SECRET_ENCRYPTION_KEY is not set: this run uses a random key. It cannot decrypt secrets in your\n"
            "database from other runs, and later runs cannot decrypt secrets from this run."
        )


def _show_targets(targets: LocalTargets, terminal: Terminal) -> None:
    terminal.line(
        ("Targets for deliveries\n", "bold"),
        f"  HTTP   {targets.receiver.base_url}/ok   (received requests: GET /_requests)\n"
        f"  Kafka  {targets.kafka.bootstrap}\n"
        f"  Redis  {targets.valkey.url}",
    )
