"""Scenario of the demo: start, register, create, watch, compare."""

import os
import secrets
import time

from app.dev.demo.demo_definitions import TOPIC, definitions
from app.dev.demo.demo_job import DemoJob, script, watch
from app.dev.demo.proof import show_deliveries, show_table
from app.dev.demo.serve import INSECURE_COOKIES, show_console, show_hints, stay
from app.dev.stack.programs import preferred_port, product_environment
from app.dev.stack.receiver_targets import LocalTargets, local_targets
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api, register
from app.dev.terminal import Terminal


def run_demo(terminal: Terminal) -> int:
    """Run the demo and return the exit status; wait for Ctrl-C at the end unless DEMO_EXIT is set."""
    terminal.line(("Task Executor", "bold"), ": setTimeout and setInterval as a service")
    terminal.line("Real servers from Python wheels, in temporary directories that are removed at the end.")
    terminal.heading("Starting")
    started = time.monotonic()
    with (
        local_targets(terminal.step) as targets,
        Stack(step=terminal.step, port=preferred_port(), env=INSECURE_COOKIES | product_environment()) as stack,
    ):
        targets.kafka.create_topic(TOPIC)
        with terminal.step("an API key, as flask --app app api-keys create demo makes it"):
            api = stack.api
        terminal.line(f"  everything within {time.monotonic() - started:.1f} s")
        status = _scripted(api, stack, targets, terminal)
        if os.environ.get("DEMO_EXIT", "") in {"", "0"}:
            stay(stack, terminal)
        terminal.heading("Stopping")
    terminal.line("  all processes and servers are stopped")
    return status


def _scripted(api: Api, stack: Stack, targets: LocalTargets, terminal: Terminal) -> int:
    secret = f"sk-demo-{secrets.token_hex(12)}"
    terminal.heading("Registering, through the REST API")
    for definition in definitions(targets, secret):
        register(api, [definition])
        terminal.line(f"  POST {definition.path:<15} {definition.name:<16} ", (definition.why, "dim"))
    jobs = script()
    terminal.heading("Creating jobs")
    for number, job in enumerate(jobs, start=1):
        job.create(api, number)
        due = "now" if job.due is None else f"{job.due.astimezone():%H:%M:%S}"
        terminal.line(f"  POST /jobs  {job.trigger:<9} {job.endpoint:<16} {job.job_id}  ", (f"due {due}", "dim"))
    terminal.heading("Watching them run; a cron job fires at the next full minute")
    watch(jobs, api, stack, terminal)
    show_table(jobs, terminal)
    for job in jobs:
        if job.trigger == "CRON":
            api.post(f"/jobs/{job.job_id}/cancel")
    terminal.line(("  the cron jobs are cancelled now", "dim"))
    missing = show_deliveries(jobs, targets, secret, terminal)
    show_hints(stack, targets, terminal, jobs[0])
    show_console(stack, terminal)
    return _verdict(jobs, missing, terminal)


def _verdict(jobs: list[DemoJob], missing: list[str], terminal: Terminal) -> int:
    failed = [job for job in jobs if job.status != "SUCCESS"]
    if failed:
        terminal.line(("\nNot delivered, says the API:", "red"))
    for job in failed:
        terminal.line(f"  {job.order_id}: {job.status} {job.error}")
    if missing:
        terminal.line((f"\nNot found at their receiver: {', '.join(missing)}", "red"))
    return 1 if failed or missing else 0
