"""`flask workers` and `status`: the worker processes, and the whole service on one screen."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Self

import click
from flask.cli import with_appcontext
from rich.console import Group
from rich.live import Live
from rich.text import Text

from app.cli import commands
from app.cli.command_session import actor, confirm, ready_database, yes_option
from app.cli.console import json_option, open_console, print_json, print_whole, show_line, show_table, shown, table_of
from app.cli.options import enum_option, gather, tell_more
from app.cli.polling import polls
from app.cli.shell_completion import MAX_OFFERED, Found, offered
from app.features.control import deliveries, process_list, worker_list
from app.features.control.deliveries import DeliveryReport, DeliveryStatistics
from app.features.control.process_list import ProcessState
from app.features.control.statistics import Figures
from app.features.control.stats_api import ReportSchema
from app.features.control.worker_list import WorkerState
from app.features.control.workers_api import CommandSchema, WorkerSchema
from app.features.queues.api import QueueSchema
from app.features.queues.cli import queue_table, seconds_of
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.processes import worker_commands
from app.kernel.processes.process_heartbeat import ProcessKind
from app.kernel.processes.worker_commands import CommandKind
from app.web.services import services

LATEST_SECONDS = 60
MOST_ENDPOINTS = 10

_limit = click.option(
    "--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="most rows to print"
)


def _workers(database: Database, _start: str) -> Found:
    found = worker_list.page(database, WorkerState.ALIVE, PageRequest(MAX_OFFERED)).items
    return [(each.worker_id, f"{each.host} (pid {each.pid})") for each in found]


@commands.listing("workers")
@enum_option("--state", WorkerState, "only workers in this state")
@_limit
@json_option
@click.pass_context
@with_appcontext
def workers_command(context: click.Context, state: WorkerState | None, limit: int, as_json: bool) -> None:
    """List worker processes, newest first; an ended worker is shown for at least a day."""
    if context.invoked_subcommand is not None:
        return None
    with ready_database() as database:
        found, is_more = gather(partial(worker_list.page, database, state), limit)
    if as_json:
        return print_json({"items": [WorkerSchema().dump(asdict(each)) for each in found], "more": is_more})
    header = ("WORKER", "STATE", "HOST", "PID", "BUSY", "QUEUES", "STARTED", "LAST BEAT")
    rows = [
        (
            *(each.worker_id, each.state, each.host, each.pid, f"{each.in_flight}/{each.capacity}"),
            *(",".join(each.queues), each.started_at, each.last_beat_at),
        )
        for each in found
    ]
    show_table(header, rows, right=("PID", "BUSY"))
    tell_more(is_more)
    return None


@commands.command("drain")
@click.argument("worker_id", **offered(_workers))
@yes_option
@json_option
@with_appcontext
def drain(worker_id: str, yes: bool, as_json: bool) -> None:
    """Drain a worker process: it stops claiming, finishes its running deliveries, and ends.

    Exits with 3 when there is no such worker, with 4 when the worker has ended or is lost.
    """
    with ready_database() as database:
        worker = worker_list.get(database, worker_id)
        confirm(f"Let the worker {worker_id} on {worker.host} (pid {worker.pid}) finish and end?", yes=yes)
        asked = worker_commands.ask(database, worker_id, CommandKind.DRAIN, AuditedChange(actor()))
    if as_json:
        return print_json(CommandSchema().dump(asdict(asked)))
    show_line(f"{worker_id} is asked to drain ({asked.command_id}: {asked.state}); `workers` shows its progress")
    return None


workers_command.add_command(drain)


@commands.command("status")
@click.option("--watch", is_flag=True, help="repeat until Ctrl-C")
@click.option(
    "--every", type=click.FloatRange(1, 3600), default=5.0, show_default=True, help="seconds between two reads"
)
@json_option
@with_appcontext
def status_command(watch: bool, every: float, as_json: bool) -> None:
    """Show the state of the service on one screen: queues, workers, held endpoints, and the deliveries of a minute.

    Each read is bounded, however many executions wait or have ended. --json prints one line for each read.
    """
    with ready_database() as database:
        if not watch:
            return _print(_Snapshot.now(database), as_json=as_json)
        try:
            _watch(database, every, as_json=as_json)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(0) from None
    return None


_DELIVERIES = ("DELIVERIES", "A SECOND", "FAILED", "LATE p50", "p99", "TOOK p50", "p99", "RUNNING")


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Content of one screen."""

    figures: Figures
    schedulers: int
    report: DeliveryReport

    @classmethod
    def now(cls, database: Database) -> Self:
        shards = services().shards
        alive = process_list.read(database, ProcessKind.SCHEDULER, ProcessState.ALIVE)
        return cls(Figures.read(database, shards), len(alive), deliveries.report(database, LATEST_SECONDS, shards))


def _watch(database: Database, every: float, *, as_json: bool) -> None:
    console = open_console()
    if as_json or not console.is_terminal:
        for _ in polls(every):
            _print(_Snapshot.now(database), as_json=as_json)
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for _ in polls(every):
            live.update(_screen(_Snapshot.now(database)), refresh=True)


def _print(look: _Snapshot, *, as_json: bool) -> None:
    if as_json:
        print_json(_shape(look), lines=True)
    else:
        print_whole(_screen(look))


def _shape(look: _Snapshot) -> dict[str, Any]:
    figures = look.figures
    return {
        "queues": [QueueSchema().dump(asdict(each)) for each in figures.queues],
        "workers": asdict(figures.workers),
        "schedulers": look.schedulers,
        "held": [asdict(each) for each in figures.held],
        "paused_endpoints": figures.paused_endpoints,
        "breakers": figures.breakers,
        "schedules_behind_seconds": figures.seconds_behind,
        "deliveries": ReportSchema().dump(look.report),
    }


def _screen(look: _Snapshot) -> Group:
    figures, report = look.figures, look.report
    states = ", ".join(f"{number} {state}" for state, number in figures.workers.by_state.items() if number)
    behind = f"{figures.seconds_behind:.0f} s behind" if figures.seconds_behind >= 1 else "on time"
    breakers = ", ".join(f"{number} {state}" for state, number in figures.breakers.items() if number)
    lines = [
        f"workers    {states or 'none'}; {figures.workers.in_flight} of {figures.workers.capacity} slots busy",
        f"schedules  {behind}; {look.schedulers} schedulers alive",
        f"breakers   {breakers or 'none'}; {figures.paused_endpoints} endpoints paused",
    ]
    parts: list[Any] = [Text("\n".join(lines)), Text()]
    parts.append(queue_table(figures.queues))
    if figures.held:
        held = [(each.endpoint, each.hold, str(each.waiting), seconds_of(each.seconds)) for each in figures.held]
        parts += [Text(), table_of(("HELD BACK", "BY", "WAITING", "NEXT IN"), held, right=("WAITING", "NEXT IN"))]
    rows = [report.overall, *report.endpoints[:MOST_ENDPOINTS]]
    parts += [Text(), table_of(_DELIVERIES, map(_deliveries, rows), right=_DELIVERIES[1:])]
    parts.append(Text(f"of the last {report.covered_seconds:.0f} s; milliseconds", style="dim"))
    return Group(*parts)


def _deliveries(each: DeliveryStatistics) -> tuple[str, ...]:
    late, took = each.lateness_ms, each.duration_ms
    figures = (each.failed, late.p50, late.p99, took.p50, took.p99, each.in_flight)
    return (each.endpoint or "all", f"{each.per_second:.2f}", *map(shown, figures))
