"""`flask queues`, `queues pause` and `queues resume`."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import click
from flask.cli import with_appcontext
from rich.table import Table

from app.cli.commands import actor, command, confirm, listing, ready_database, yes_option
from app.cli.console import json_option, print_result, table_of
from app.cli.options import gather, show_list
from app.cli.shell_completion import MAX_OFFERED, Found, offered
from app.features.queues import pauses, store
from app.features.queues.api import QueueSchema
from app.features.queues.store import Queue
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.web.services import services, wake

_HEADER = ("QUEUE", "WORKERS", "DUE", "OLDEST", "")


def _queues(database: Database, _start: str) -> Found:
    return [(queue, "") for queue in store.known(database, MAX_OFFERED).workers]


@listing("queues")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="most rows to print")
@json_option
@click.pass_context
@with_appcontext
def group(context: click.Context, limit: int, as_json: bool) -> None:
    """List the queues: number and age of due executions, and live workers of each.

    Exits with 1 when executions are due in a queue without a worker.
    """
    if context.invoked_subcommand is not None:
        return
    with ready_database() as database:
        found, is_more = gather(partial(store.page, database, services().shards), limit)
    items = [QueueSchema().dump(each) for each in found]
    show_list(items, _HEADER, map(_row, found), is_more=is_more, as_json=as_json, right=_HEADER[1:4])
    if any(each.is_unserved for each in found):
        raise click.exceptions.Exit(1)


@command("pause")
@click.argument("queue", **offered(_queues))
@yes_option
@json_option
@with_appcontext
def pause(queue: str, yes: bool, as_json: bool) -> None:
    """Pause a queue: nothing is claimed until it is resumed. Running deliveries continue, the order is kept.

    Exits with 3 when the queue is unknown.
    """
    _set_paused(queue, "Pause the queue {0!r}, with {1} due executions?", is_paused=True, yes=yes, as_json=as_json)


@command("resume")
@click.argument("queue", **offered(_queues))
@yes_option
@json_option
@with_appcontext
def resume(queue: str, yes: bool, as_json: bool) -> None:
    """Resume a paused queue.

    Exits with 3 when the queue is unknown.
    """
    question = "Let the {1} due executions of the queue {0!r} start?"
    _set_paused(queue, question, is_paused=False, yes=yes, as_json=as_json)
    wake(queue)


group.add_command(pause)
group.add_command(resume)


def _set_paused(queue: str, question: str, *, is_paused: bool, yes: bool, as_json: bool) -> None:
    with ready_database() as database:
        found = store.get(database, queue, services().shards)
        confirm(question.format(queue, found.due), yes=yes)
        found = found.with_pause(pauses.set_paused(database, queue, AuditedChange(actor()), is_paused=is_paused))
    line = f"the queue {queue} is {'paused' if is_paused else 'not paused'}"
    print_result(QueueSchema().dump(asdict(found)), line, as_json=as_json)


def _row(queue: Queue) -> tuple[str, ...]:
    due = f"{queue.due:,}{'+' if queue.due >= store.MAX_DUE else ''}"
    remark = "paused" if queue.paused_at else "no worker serves it" if queue.is_unserved else ""
    return (queue.queue, str(queue.workers), due, seconds_of(queue.oldest_due_seconds), remark)


def queue_table(queues: Sequence[Queue]) -> Table:
    return table_of(_HEADER, map(_row, queues), right=_HEADER[1:4])


def seconds_of(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s"
