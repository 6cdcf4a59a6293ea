"""`flask executions tail`: follow one execution to its end, or all that change."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import click
from flask.cli import with_appcontext

from app.cli import commands
from app.cli.command_session import ready_database
from app.cli.console import json_option, print_json, show_line, shown
from app.cli.exit_statuses import FAILED
from app.cli.options import QUEUE, TEXT, enum_option, gather
from app.cli.polling import looks
from app.cli.shell_completion import OF_ENDPOINTS, OF_EXECUTIONS, OF_JOBS
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.formats import EPOCH
from app.queue.executions.execution_model import Execution, LogRecord
from app.queue.reading.execution_history import Step, history_of
from app.queue.reading.execution_list import ExecutionFilter, page_of_executions
from app.queue.reading.execution_queries import LogFilter, find_executions, logs_of
from app.web.executions.execution_schemas import ExecutionSchema, LogLineSchema, shape_record
from app.web.executions.history_schemas import StepSchema
from app.web.services import services
from schema.states import FINAL, ExecutionStatus

MOST_AT_ONCE = 500  # executions of a look; of more only the newest are told
MOST_OPEN = 500  # that are looked at again until they end
MOST_LINES = 200
# What was created in a transaction that took longer is not told of.
OVERLAP = timedelta(seconds=15)


@dataclass(slots=True)
class Follower:
    """Tells which executions are new or have changed since the look before: two statements, whatever has ended."""

    database: Database
    wanted: ExecutionFilter
    _since: datetime = EPOCH
    _open: dict[str, ExecutionStatus] = field(default_factory=dict)
    _told: dict[str, datetime] = field(default_factory=dict)

    def begin(self) -> None:
        """Take note of what there is: of its newest, and of what is open."""
        newest = page_of_executions(self.database, replace(self.wanted, status=None), PageRequest(1)).items
        self._since = newest[0].created_at if newest else EPOCH
        self.look()
        for status in ExecutionStatus:
            if status not in FINAL:
                self._note([], self._read(replace(self.wanted, status=status)))

    def look(self) -> list[Execution]:
        """Return them, in the order of their creation."""
        new = self._read(replace(self.wanted, status=None, created_after=self._since - OVERLAP))
        found = {each.execution_id: each for each in new if each.execution_id not in self._told}
        found |= {each.execution_id: each for each in find_executions(self.database, list(self._open))}
        changed = [each for each in found.values() if self._open.get(each.execution_id) is not each.status]
        self._note(new, changed)
        wanted = [each for each in changed if self.wanted.status in {None, each.status}]
        return sorted(wanted, key=lambda each: (each.created_at, each.execution_id))

    def _read(self, wanted: ExecutionFilter) -> list[Execution]:
        return gather(lambda page: page_of_executions(self.database, wanted, page), MOST_AT_ONCE)[0]

    def _note(self, new: list[Execution], changed: list[Execution]) -> None:
        self._since = max([self._since, *(each.created_at for each in new)])
        for each in changed:
            self._told[each.execution_id] = each.created_at
            self._open.pop(each.execution_id, None)
            if each.status not in FINAL:
                self._open[each.execution_id] = each.status
        for execution_id in list(self._open)[:-MOST_OPEN]:
            del self._open[execution_id]
        self._told = {key: at for key, at in self._told.items() if at >= self._since - OVERLAP or key in self._open}


@dataclass(slots=True)
class Life:
    """Tells what is new in the life of one execution: changes of its state, and lines of its log."""

    database: Database
    execution_id: str
    look_ahead: timedelta
    _told: set[object] = field(default_factory=set)

    def look(self) -> tuple[list[Step | LogRecord], ExecutionStatus]:
        """Return it in order, and the present state; raises ExecutionNotFoundError."""
        steps = history_of(self.database, self.execution_id, look_ahead=self.look_ahead).steps
        lines, _ = gather(lambda page: logs_of(self.database, self.execution_id, LogFilter(), page), MOST_LINES)
        told: dict[object, Step | LogRecord] = {_key(step): step for step in steps} | {
            _key(line): line for line in lines
        }
        new = [each for key, each in told.items() if key not in self._told]
        self._told |= told.keys()
        return sorted(new, key=lambda each: each.logged_at if isinstance(each, LogRecord) else each.at), steps[-1].after


@commands.command("tail")
@click.argument("execution_id", required=False, **OF_EXECUTIONS)
@enum_option("--status", ExecutionStatus, "only what comes into this state")
@click.option("--endpoint", type=TEXT, **OF_ENDPOINTS, help="only executions of this endpoint")
@click.option("--job", "job_id", type=TEXT, **OF_JOBS, help="only executions of this job")
@click.option("--queue", type=QUEUE, help="only executions in this queue")
@click.option("--every", type=click.FloatRange(0.2, 60), default=1.0, show_default=True, help="seconds between looks")
@json_option
@with_appcontext
def command(execution_id: str | None, every: float, as_json: bool, **filters: Any) -> None:
    """Follow what is created from now on and each change of it, until Ctrl-C; or EXECUTION_ID, until it ends.

    With an id it exits with 0 after a SUCCESS and with 1 after any other end, or where nobody waited for one. --json
    prints a line for each change.
    """
    if execution_id is not None and any(filters.values()):
        raise click.UsageError("use either EXECUTION_ID or options that say which executions to follow")
    try:
        with ready_database() as database:
            if execution_id is None:
                _follow(Follower(database, ExecutionFilter(**filters)), every, as_json=as_json)
            else:
                look_ahead = timedelta(seconds=services().settings.look_ahead_seconds)
                ended = _accompany(Life(database, execution_id, look_ahead), every, as_json=as_json)
                raise click.exceptions.Exit(0 if ended is ExecutionStatus.SUCCESS else FAILED)
    except KeyboardInterrupt:
        # A script must not take it for a success.
        raise click.exceptions.Exit(0 if execution_id is None else FAILED) from None


def until_its_end(life: Life, every: float = 0.2) -> ExecutionStatus:
    """Wait for the end of an execution, and return how it ended."""
    while True:
        _, status = life.look()
        if status in FINAL:
            return status
        time.sleep(every)


def at(step: Step) -> str:
    """Write when a step was made, with a sign where that is estimated."""
    return f"{'~' if step.is_estimated else ''}{shown(step.at)}"


def _follow(follower: Follower, every: float, *, as_json: bool) -> None:
    follower.begin()
    click.echo("following; Ctrl-C ends it", err=True)
    for _ in looks(every):
        for each in follower.look():
            if as_json:
                print_json(ExecutionSchema().dump(shape_record(each)), lines=True)
            else:
                show_line("  ".join(_columns(each)))


def _accompany(life: Life, every: float, *, as_json: bool) -> ExecutionStatus:
    for _ in looks(every):
        new, status = life.look()
        for each in new:
            if as_json:
                schema = LogLineSchema() if isinstance(each, LogRecord) else StepSchema()
                print_json(schema.dump(each), lines=True)
            elif isinstance(each, LogRecord):
                show_line(f"{shown(each.logged_at)}  {each.level:<8}  attempt {each.attempt_number}: {each.message}")
            else:
                by = f" by {each.actor}" if each.actor else ""
                show_line(f"{at(each)}  {each.after:<8}  {each.reason}, attempt {each.attempt}{by}")
        if status in FINAL:
            return status
    raise KeyboardInterrupt


def _columns(each: Execution) -> Iterator[str]:
    yield shown(each.completed_at or each.started_at or each.created_at)
    yield f"{each.status:<9}"
    yield each.execution_id
    yield each.endpoint
    yield f"attempt {each.attempt_count}/{each.max_attempts}"
    if each.last_error and each.status is not ExecutionStatus.SUCCESS:
        yield f"{each.last_error.get('type')}: {each.last_error.get('message', '')}"


def _key(each: Step | LogRecord) -> object:
    if isinstance(each, LogRecord):
        return each.log_id
    # An estimated instant changes with what becomes known.
    return (each.before, each.after, each.attempt, each.reason, None if each.is_estimated else each.at)
