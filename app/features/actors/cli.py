"""`flask actors`: list and show actors, and the processes that offer them."""

from functools import partial

import click

from app.cli.commands import ServiceGroup, ready_database
from app.cli.console import json_option, print_json, show_fields, show_line, show_table
from app.cli.options import TEXT, gather, limit_option, show_list
from app.cli.shell_completion import MAX_OFFERED, Found, offered
from app.features.actors import store
from app.features.actors.api import ActorSchema
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest

group = ServiceGroup("actors", help="List and show actors, and the processes that offer them.")


def _actors(database: Database, _start: str) -> Found:
    found = store.page_of_actors(database, None, PageRequest(MAX_OFFERED)).items
    return [(each.actor, each.endpoint) for each in found]


@group.command("list")
@click.option("--offered/--not-offered", "is_offered", default=None, help="only actors that a process offers, or none")
@click.option("--worker", type=TEXT, help="only actors of processes that are connected to this worker")
@limit_option
@json_option
def list_(is_offered: bool | None, worker: str | None, limit: int, as_json: bool) -> None:
    """List actors, last registered first. Exits with 3 when there is no such worker."""
    if worker is not None and is_offered is not None:
        raise click.UsageError("give --worker or --offered, not both")
    with ready_database() as database:
        read = partial(store.page_of_actors, database, is_offered)
        found, is_more = gather(read if worker is None else partial(store.page_of_worker, database, worker), limit)
    items = [ActorSchema().dump(each) for each in found]
    header = ("ACTOR", "QUEUE", "ENDPOINT", "PRIORITY", "PROCESSES", "LAST SEEN")
    rows = [
        (each.actor, each.queue, each.endpoint, each.priority, each.process_count, each.last_seen_at) for each in found
    ]
    show_list(items, header, rows, is_more=is_more, as_json=as_json, right=["PRIORITY", "PROCESSES"])


@group.command("show")
@click.argument("actor", **offered(_actors))
@json_option
def show(actor: str, as_json: bool) -> None:
    """Show an actor, its options and the processes that offer it. Exits with 3 when there is no such actor."""
    with ready_database() as database:
        found = store.get_actor(database, actor)
    shown = ActorSchema().dump(found)
    if as_json:
        return print_json(shown)
    del shown["processes"], shown["refusals"]
    show_fields(shown)
    show_line("")
    rows = [(each.host, each.pid, each.threads, each.worker_id, each.connected_at) for each in found.processes]
    show_table(("HOST", "PID", "THREADS", "WORKER", "SINCE"), rows, right=["PID", "THREADS"])
    for each in found.refusals:
        show_line(f"refused: process {each.pid} on {each.host} at {each.worker_id}: {each.reason}")
    return None
