"""`flask workers` and `status`: the worker processes, and the whole service on one screen."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Self

import click
from flask.cli import with_appcontext
from rich.console import Group
from rich.live import Live
from rich.text import Text

from app.cli import commands
from app.cli.commands import actor, confirm, ready_database, yes_option
from app.cli.console import (
    json_option,
    open_console,
    polls,
    print_json,
    print_result,
    print_whole,
    shown,
    table_of,
)
from app.cli.options import Duration, EnumChoice, Number, gather, show_list
from app.cli.shell_completion import MAX_OFFERED, Found, offered
from app.features.control import deliveries, store
from app.features.control.deliveries import DeliveryReport, DeliveryStatistics
from app.features.control.statistics import ServiceStatistics
from app.features.control.stats_api import ReportSchema
from app.features.control.store import ProcessState, WorkerState
from app.features.control.workers_api import CommandSchema, WorkerSchema
from app.features.queues.api import QueueSchema
from app.features.queues.cli import queue_table, seconds_of
from app.features.rollups.past_deliveries import PastDeliveries
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.formats import numbered
from app.kernel.function_types import Run
from app.kernel.processes import worker_commands
from app.kernel.processes.process_heartbeat import ProcessKind
from app.kernel.processes.worker_commands import CommandKind
from app.web.services import services

LATEST_SECONDS = 60
MAX_ENDPOINTS = 10


def _workers(database: Database, _start: str) -> Found:
    found = store.page_of_workers(database, WorkerState.ALIVE, PageRequest(MAX_OFFERED)).items
    return [(each.worker_id, f"{each.host} (pid {each.pid})") for each in found]


@commands.listing("workers")
@click.option("--state", type=EnumChoice(WorkerState), help="only workers in this state")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="most rows to print")
@json_option
@click.pass_context
@with_appcontext
def workers_command(context: click.Context, state: WorkerState | None, limit: int, as_json: bool) -> None:
    """List worker processes, newest first; an ended worker is shown for at least a day."""
    if context.invoked_subcommand is not None:
        return
    with ready_database() as database:
        found, is_more = gather(partial(store.page_of_workers, database, state), limit)
    items = [WorkerSchema().dump(each) for each in found]
    header = ("WORKER", "STATE", "HOST", "PID", "BUSY", "QUEUES", "STARTED", "LAST BEAT")
    rows = [
        (
            *(each.worker_id, each.state, each.host, each.pid, f"{each.in_flight}/{each.capacity}"),
            *(",".join(each.queues), each.started_at, each.last_beat_at),
        )
        for each in found
    ]
    show_list(items, header, rows, is_more=is_more, as_json=as_json, right=("PID", "BUSY"))


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
        worker = store.get_worker(database, worker_id)
        confirm(f"Let the worker {worker_id} on {worker.host} (pid {worker.pid}) finish and end?", yes=yes)
        asked = worker_commands.ask(database, worker_id, CommandKind.DRAIN, AuditedChange(actor()))
    line = f"{worker_id} is asked to drain ({asked.command_id}: {asked.state}); `workers` shows its progress"
    print_result(CommandSchema().dump(asdict(asked)), line, as_json=as_json)


workers_command.add_command(drain)


@commands.command("status")
@click.option("--watch", is_flag=True, help="repeat until Ctrl-C")
@click.option("--every", type=Number(1, 3600), default=5.0, show_default=True, help="seconds between two reads")
@click.option("--last", type=Duration(), help="show charts of this time instead: 5m, 1h, 24h, 30d")
@click.option("--endpoint", help="with --last: deliveries of this endpoint only")
@json_option
@with_appcontext
def status_command(watch: bool, every: float, last: timedelta | None, endpoint: str | None, as_json: bool) -> None:
    """Show the state of the service on one screen: queues, workers, held endpoints, and the deliveries of a minute.

    With --last, show charts of deliveries, lateness and queues. Each read is bounded, however many executions wait or
    have ended. --json prints one line for each read.
    """
    if endpoint is not None and last is None:
        raise click.UsageError("give --last with --endpoint, such as --last 24h")
    read = _Snapshot.now if last is None else partial(PastDeliveries.of, last=last, endpoint=endpoint)
    with ready_database() as database:
        if not watch:
            _print(read(database), as_json=as_json)
            return
        with suppress(KeyboardInterrupt):
            _watch(partial(read, database), every, as_json=as_json)


_DELIVERIES = ("DELIVERIES", "A SECOND", "FAILED", "LATE p50", "p99", "TOOK p50", "p99", "RUNNING")


@dataclass(frozen=True, slots=True)
class _Snapshot:
    service: ServiceStatistics
    schedulers: int
    report: DeliveryReport

    @classmethod
    def now(cls, database: Database) -> Self:
        shards = services().shards
        alive = store.processes(database, ProcessKind.SCHEDULER, ProcessState.ALIVE)
        report = deliveries.report(database, LATEST_SECONDS, shards)
        return cls(ServiceStatistics.read(database, shards), len(alive), report)

    def shape(self) -> dict[str, Any]:
        service = self.service
        return {
            "queues": [QueueSchema().dump(asdict(each)) for each in service.queues],
            "workers": service.workers._asdict(),
            "schedulers": self.schedulers,
            "held": [each._asdict() for each in service.held],
            "paused_endpoints": service.paused_endpoints,
            "breakers": service.breakers,
            "schedules_behind_seconds": service.seconds_behind,
            "deliveries": ReportSchema().dump(self.report),
        }

    def screen(self) -> Group:
        service, report = self.service, self.report
        behind = f"{service.seconds_behind:.0f} s behind" if service.seconds_behind >= 1 else "on time"
        slots = f"{service.workers.in_flight} of {numbered(service.workers.capacity, 'slot')} busy"
        lines = [
            f"workers    {_counts(service.workers.by_state)}; {slots}",
            f"schedules  {behind}; {numbered(self.schedulers, 'scheduler')} alive",
            f"breakers   {_counts(service.breakers)}; {numbered(service.paused_endpoints, 'endpoint')} paused",
        ]
        parts: list[Any] = [Text("\n".join(lines)), Text(), queue_table(service.queues)]
        if service.held:
            held = [(each.endpoint, each.hold, str(each.waiting), seconds_of(each.seconds)) for each in service.held]
            parts += [Text(), table_of(("HELD BACK", "BY", "WAITING", "NEXT IN"), held, right=("WAITING", "NEXT IN"))]
        rows = [report.overall, *report.endpoints[:MAX_ENDPOINTS]]
        parts += [Text(), table_of(_DELIVERIES, map(_deliveries, rows), right=_DELIVERIES[1:])]
        parts.append(Text(f"of the last {report.covered_seconds:.0f} s; milliseconds", style="dim"))
        return Group(*parts)


def _watch(read: Run[_Snapshot | PastDeliveries], every: float, *, as_json: bool) -> None:
    console = open_console()
    if as_json or not console.is_terminal:
        for _ in polls(every):
            _print(read(), as_json=as_json)
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for _ in polls(every):
            live.update(read().screen(), refresh=True)


def _print(found: _Snapshot | PastDeliveries, *, as_json: bool) -> None:
    if as_json:
        print_json(found.shape(), lines=True)
    else:
        print_whole(found.screen())


def _counts(by_state: Mapping[Any, int]) -> str:
    return ", ".join(f"{number} {state}" for state, number in by_state.items() if number) or "none"


def _deliveries(each: DeliveryStatistics) -> tuple[str, ...]:
    late, took = each.lateness_ms, each.duration_ms
    cells = (each.failed, late.p50, late.p99, took.p50, took.p99, each.in_flight)
    return (each.endpoint or "all", f"{each.per_second:.2f}", *map(shown, cells))
