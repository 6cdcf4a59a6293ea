"""`flask workers drain` and `flask queues pause|resume`."""

from dataclasses import asdict

import click
from flask.cli import with_appcontext

from app.cli.command_session import actor, confirm, ready_database, yes_option
from app.cli.commands import command
from app.cli.console import json_option, print_json, show_line
from app.cli.shell_completion import OF_QUEUES, OF_WORKERS
from app.features.control import queue_statistics, worker_list
from app.features.control.workers_api import CommandSchema
from app.features.queues import store as queues_store
from app.features.queues.api import QueueSchema
from app.kernel.audit.change import AuditedChange
from app.kernel.processes import worker_commands
from app.kernel.processes.worker_commands import CommandKind
from app.web.services import services, wake


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
        worker = worker_list.get(database, worker_id)
        confirm(f"Let the worker {worker_id} on {worker.host} (pid {worker.pid}) finish and end?", yes=yes)
        asked = worker_commands.ask(database, worker_id, CommandKind.DRAIN, AuditedChange(actor()))
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
        found = queue_statistics.get(database, queue, services().shards)
        confirm(f"Pause the queue {queue!r}, in which {found.due} are due?", yes=yes)
        queues_store.pause(database, queue, AuditedChange(actor()))
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
        found = queue_statistics.get(database, queue, services().shards)
        confirm(f"Let {found.due} that are due in the queue {queue!r} start?", yes=yes)
        queues_store.resume(database, queue, AuditedChange(actor()))
        wake(queue)
    _tell(queue, "not paused", as_json=as_json)


def _tell(queue: str, state: str, *, as_json: bool) -> None:
    if not as_json:
        return show_line(f"the queue {queue} is {state}")
    with ready_database() as database:
        found = queue_statistics.read(
            database, {queue: queue_statistics.serving(database).get(queue, 0)}, services().shards
        )[0]
    return print_json(QueueSchema().dump(asdict(found)))
