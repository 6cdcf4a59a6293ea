"""`flask queues`, `workers` and `status`: what waits, who works, and how the whole service is doing."""

from dataclasses import asdict, dataclass
from typing import Any, Self

import click
from flask.cli import with_appcontext
from rich.console import Group
from rich.live import Live
from rich.text import Text

from app.cli import commands
from app.cli.command_session import ready_database
from app.cli.console import json_option, open_console, print_json, print_whole, show_table, shown, table_of
from app.cli.options import enum_option, gather, tell_more
from app.cli.polling import looks
from app.features.control import deliveries, process_list, queue_statistics, steering_cli, worker_list
from app.features.control.deliveries import Deliveries, Report
from app.features.control.process_list import ProcessState
from app.features.control.queue_statistics import Queue
from app.features.control.statistics import Figures
from app.features.control.stats_api import ReportSchema
from app.features.control.worker_list import WorkerState
from app.features.control.workers_api import WorkerSchema
from app.features.queues.api import QueueSchema
from app.kernel.db import Database
from app.kernel.processes.process_heartbeat import Kind
from app.web.services import services

LATEST_SECONDS = 60
MOST_ENDPOINTS = 10

_limit = click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="how many")


@commands.listing("queues")
@_limit
@json_option
@click.pass_context
@with_appcontext
def queues_command(context: click.Context, limit: int, as_json: bool) -> None:
    """List the queues: how much is due in each, for how long, and how many live workers serve it.

    Exits with 1 when something is due in a queue that nobody serves.
    """
    if context.invoked_subcommand is not None:
        return
    with ready_database() as database:
        found, is_more = gather(lambda wanted: queue_statistics.page(database, services().shards, wanted), limit)
    if as_json:
        print_json({"items": [QueueSchema().dump(asdict(each)) for each in found], "more": is_more})
    else:
        show_table(_QUEUES, map(_queue, found), right=_QUEUES[1:4])
        tell_more(is_more)
    if any(each.is_unserved for each in found):
        raise click.exceptions.Exit(1)


@commands.listing("workers")
@enum_option("--state", WorkerState, "only those in this state")
@_limit
@json_option
@click.pass_context
@with_appcontext
def workers_command(context: click.Context, state: WorkerState | None, limit: int, as_json: bool) -> None:
    """List worker processes, those that started last first; one that has ended is shown for a day at least."""
    if context.invoked_subcommand is not None:
        return None
    with ready_database() as database:
        found, is_more = gather(lambda wanted: worker_list.page(database, state, wanted), limit)
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


workers_command.add_command(steering_cli.drain)
for _command in (steering_cli.pause, steering_cli.resume):
    queues_command.add_command(_command)


@commands.command("status")
@click.option("--watch", is_flag=True, help="look again and again, until Ctrl-C")
@click.option("--every", type=click.FloatRange(1, 3600), default=5.0, show_default=True, help="seconds between looks")
@json_option
@with_appcontext
def status_command(watch: bool, every: float, as_json: bool) -> None:
    """Show on one screen how the service is doing: queues, workers, what is held back, and the deliveries of a minute.

    Each look is bounded, however much waits or has ended. --json prints a line for each.
    """
    with ready_database() as database:
        if not watch:
            return _print(_Look.now(database), as_json=as_json)
        try:
            _watch(database, every, as_json=as_json)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(0) from None
    return None


_QUEUES = ("QUEUE", "WORKERS", "DUE", "OLDEST", "")
_DELIVERIES = ("DELIVERIES", "A SECOND", "FAILED", "LATE p50", "p99", "TOOK p50", "p99", "RUNNING")


@dataclass(frozen=True, slots=True)
class _Look:
    """What is shown at once."""

    figures: Figures
    schedulers: int
    report: Report

    @classmethod
    def now(cls, database: Database) -> Self:
        """Read it."""
        shards = services().shards
        alive = process_list.read(database, Kind.SCHEDULER, ProcessState.ALIVE)
        return cls(Figures.read(database, shards), len(alive), deliveries.report(database, LATEST_SECONDS, shards))


def _watch(database: Database, every: float, *, as_json: bool) -> None:
    console = open_console()
    if as_json or not console.is_terminal:
        for _ in looks(every):
            _print(_Look.now(database), as_json=as_json)
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for _ in looks(every):
            live.update(_screen(_Look.now(database)), refresh=True)


def _print(look: _Look, *, as_json: bool) -> None:
    if as_json:
        print_json(_shape(look), lines=True)
    else:
        print_whole(_screen(look))


def _shape(look: _Look) -> dict[str, Any]:
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


def _screen(look: _Look) -> Group:
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
    parts.append(table_of(_QUEUES, map(_queue, figures.queues), right=_QUEUES[1:4]))
    if figures.held:
        held = [(each.endpoint, each.hold, str(each.waiting), _seconds(each.seconds)) for each in figures.held]
        parts += [Text(), table_of(("HELD BACK", "BY", "WAITING", "NEXT IN"), held, right=("WAITING", "NEXT IN"))]
    told = [report.overall, *report.endpoints[:MOST_ENDPOINTS]]
    parts += [Text(), table_of(_DELIVERIES, map(_deliveries, told), right=_DELIVERIES[1:])]
    parts.append(Text(f"of the last {report.covered_seconds:.0f} s; milliseconds", style="dim"))
    return Group(*parts)


def _queue(queue: Queue) -> tuple[str, ...]:
    due = f"{queue.due:,}{'+' if queue.due >= queue_statistics.MOST_DUE else ''}"
    remark = "paused" if queue.paused_at else "no worker serves it" if queue.is_unserved else ""
    return (queue.queue, str(queue.workers), due, _seconds(queue.oldest_due_seconds), remark)


def _deliveries(each: Deliveries) -> tuple[str, ...]:
    late, took = each.lateness_ms, each.duration_ms
    figures = (each.failed, late.p50, late.p99, took.p50, took.p99, each.in_flight)
    return (each.endpoint or "all", f"{each.per_second:.2f}", *map(shown, figures))


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s"
