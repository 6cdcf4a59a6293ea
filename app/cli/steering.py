"""`flask workers drain` and `flask queues pause|resume`."""

from dataclasses import asdict

import click
from flask.cli import with_appcontext

from app.api.control.queues import QueueSchema
from app.api.control.workers import CommandSchema
from app.api.services import services, wake
from app.audit.change import AuditedChange
from app.catalog import queue_pauses
from app.cli.commands import command
from app.cli.completion import OF_QUEUES, OF_WORKERS
from app.cli.console import json_option, print_json, show_line
from app.cli.session import actor, confirm, ready_database, yes_option
from app.health import commands
from app.health.commands import CommandKind
from app.stats import queues, workers


@command("drain")
@click.argument("worker_id", **OF_WORKERS)
@yes_option
@json_option
@with_appcontext
def drain(worker_id: str, yes: bool, as_json: bool) -> None:
    """Ask a worker process to claim nothing more, finish what it has begun, and end.

    Exits with 3 when there is no such worker, with 4 when it has ended or is lost.
    """
    with ready_database() as database:
        worker = workers.get(database, worker_id)
        confirm(f"Let the worker {worker_id} on {worker.host} (pid {worker.pid}) finish and end?", yes=yes)
        asked = commands.ask(database, worker_id, CommandKind.DRAIN, AuditedChange(actor()))
    if as_json:
        return print_json(CommandSchema().dump(asdict(asked)))
    show_line(f"{worker_id} is asked to drain ({asked.command_id}: {asked.state}); `workers` shows how it goes on")
    return None


@command("pause")
@click.argument("queue", **OF_QUEUES)
@yes_option
@json_option
@with_appcontext
def pause(queue: str, yes: bool, as_json: bool) -> None:
    """Let nothing of a queue be claimed until it is resumed; what runs goes on, what waits keeps its place.

    Exits with 3 when nothing knows a queue of that name.
    """
    with ready_database() as database:
        found = queues.get(database, queue, services().shards)
        confirm(f"Pause the queue {queue!r}, in which {found.due} are due?", yes=yes)
        queue_pauses.pause(database, queue, AuditedChange(actor()))
    _tell(queue, "paused", as_json=as_json)


@command("resume")
@click.argument("queue", **OF_QUEUES)
@yes_option
@json_option
@with_appcontext
def resume(queue: str, yes: bool, as_json: bool) -> None:
    """Let workers claim from a queue again.

    Exits with 3 when nothing knows a queue of that name.
    """
    with ready_database() as database:
        found = queues.get(database, queue, services().shards)
        confirm(f"Let {found.due} that are due in the queue {queue!r} start?", yes=yes)
        queue_pauses.resume(database, queue, AuditedChange(actor()))
        wake(queue)
    _tell(queue, "not paused", as_json=as_json)


def _tell(queue: str, state: str, *, as_json: bool) -> None:
    if not as_json:
        return show_line(f"the queue {queue} is {state}")
    with ready_database() as database:
        found = queues.read(database, {queue: queues.serving(database).get(queue, 0)}, services().shards)[0]
    return print_json(QueueSchema().dump(asdict(found)))
