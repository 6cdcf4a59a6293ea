"""`flask executions tail`: follow an execution to its end, or all changes of executions."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Any

import click
from flask.cli import with_appcontext

from app.cli import commands
from app.cli.commands import FAILED, ready_database
from app.cli.console import json_option, polls, print_json, show_line, shown
from app.cli.options import QUEUE, TEXT, enum_option, gather
from app.cli.shell_completion import OF_ENDPOINTS, OF_EXECUTIONS, OF_JOBS
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.formats import EPOCH
from app.queue.executions.execution_model import Execution, LogRecord
from app.queue.reading.execution_history import HistoryStep, history_of
from app.queue.reading.execution_list import ExecutionFilter, page_of_executions
from app.queue.reading.execution_queries import find_executions
from app.queue.reading.log_lines import logs_of
from app.web.executions.execution_schemas import ExecutionSchema, LogLineSchema, StepSchema
from app.web.services import services
from schema.states import FINAL, ExecutionStatus

MAX_AT_ONCE = 500  # executions of a poll; beyond that only the newest are reported
MAX_OPEN = 500  # executions that are read again until they end
MAX_LINES = 200
# Rows of transactions that take longer than this to commit are missed.
OVERLAP = timedelta(seconds=15)


@dataclass(slots=True)
class Follower:
    """Detector of new and changed executions since the previous poll, in two statements a poll."""

    database: Database
    wanted: ExecutionFilter
    _since: datetime = EPOCH
    _open: dict[str, ExecutionStatus] = field(default_factory=dict)
    _reported: dict[str, datetime] = field(default_factory=dict)

    def begin(self) -> None:
        """Record the newest and all open executions as known."""
        newest = page_of_executions(self.database, replace(self.wanted, status=None), PageRequest(1)).items
        self._since = newest[0].created_at if newest else EPOCH
        self.poll()
        for status in ExecutionStatus:
            if status not in FINAL:
                self._note([], self._read(replace(self.wanted, status=status)))

    def poll(self) -> list[Execution]:
        """Return new and changed executions in the order of their creation."""
        new = self._read(replace(self.wanted, status=None, created_after=self._since - OVERLAP))
        found = {each.execution_id: each for each in new if each.execution_id not in self._reported}
        found |= {each.execution_id: each for each in find_executions(self.database, list(self._open))}
        changed = [each for each in found.values() if self._open.get(each.execution_id) is not each.status]
        self._note(new, changed)
        wanted = [each for each in changed if self.wanted.status in {None, each.status}]
        return sorted(wanted, key=attrgetter("created_at", "execution_id"))

    def _read(self, wanted: ExecutionFilter) -> list[Execution]:
        return gather(partial(page_of_executions, self.database, wanted), MAX_AT_ONCE)[0]

    def _note(self, new: list[Execution], changed: list[Execution]) -> None:
        self._since = max([self._since, *(each.created_at for each in new)])
        for each in changed:
            self._reported[each.execution_id] = each.created_at
            self._open.pop(each.execution_id, None)
            if each.status not in FINAL:
                self._open[each.execution_id] = each.status
        for execution_id in list(self._open)[:-MAX_OPEN]:
            del self._open[execution_id]
        recent = self._since - OVERLAP
        self._reported = {key: at for key, at in self._reported.items() if at >= recent or key in self._open}


@dataclass(slots=True)
class Life:
    """Detector of new state changes and log lines of one execution."""

    database: Database
    execution_id: str
    look_ahead: timedelta
    _reported: set[object] = field(default_factory=set)

    def poll(self) -> tuple[list[HistoryStep | LogRecord], ExecutionStatus]:
        """Return new changes and lines in order, and the current state; raises ExecutionNotFoundError."""
        steps = history_of(self.database, self.execution_id, look_ahead=self.look_ahead).steps
        lines, _ = gather(partial(logs_of, self.database, self.execution_id), MAX_LINES)
        events: list[HistoryStep | LogRecord] = [*steps, *lines]
        found = {_key(each): each for each in events}
        new = [each for key, each in found.items() if key not in self._reported]
        self._reported |= found.keys()
        return sorted(new, key=_instant), steps[-1].after


@commands.command("tail")
@click.argument("execution_id", required=False, **OF_EXECUTIONS)
@enum_option("--status", ExecutionStatus, "only changes to this state")
@click.option("--endpoint", type=TEXT, **OF_ENDPOINTS, help="only executions of this endpoint")
@click.option("--job", "job_id", type=TEXT, **OF_JOBS, help="only executions of this job")
@click.option("--queue", type=QUEUE, help="only executions in this queue")
@click.option("--every", type=click.FloatRange(0.2, 60), default=1.0, show_default=True, help="seconds between polls")
@json_option
@with_appcontext
def command(execution_id: str | None, every: float, as_json: bool, **filters: Any) -> None:
    """Follow new executions and their changes until Ctrl-C, or EXECUTION_ID until its end.

    With an id the exit status is 0 after SUCCESS, and 1 after any other end or Ctrl-C. --json prints a line for each
    change.
    """
    if execution_id is not None and any(filters.values()):
        raise click.UsageError("use either EXECUTION_ID or filter options")
    try:
        with ready_database() as database:
            if execution_id is None:
                _follow(Follower(database, ExecutionFilter(**filters)), every, as_json=as_json)
            else:
                look_ahead = timedelta(seconds=services().settings.look_ahead_seconds)
                ended = _accompany(Life(database, execution_id, look_ahead), every, as_json=as_json)
                raise click.exceptions.Exit(0 if ended is ExecutionStatus.SUCCESS else FAILED)
    except KeyboardInterrupt:
        # Ctrl-C before the end must not look like success to a script.
        raise click.exceptions.Exit(0 if execution_id is None else FAILED) from None


def until_its_end(life: Life, every: float = 0.2) -> ExecutionStatus:
    """Wait for the end of an execution and return its final state."""
    while True:
        _, status = life.poll()
        if status in FINAL:
            return status
        time.sleep(every)


def at(step: HistoryStep) -> str:
    """Format the instant of a step; `~` marks an estimate."""
    return f"{'~' if step.is_estimated else ''}{shown(step.at)}"


def _follow(follower: Follower, every: float, *, as_json: bool) -> None:
    follower.begin()
    click.echo("following executions; press Ctrl-C to stop", err=True)
    for _ in polls(every):
        for each in follower.poll():
            if as_json:
                print_json(ExecutionSchema().dump(each), lines=True)
            else:
                show_line("  ".join(_columns(each)))


def _accompany(life: Life, every: float, *, as_json: bool) -> ExecutionStatus:
    for _ in polls(every):
        new, status = life.poll()
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


def _key(each: HistoryStep | LogRecord) -> object:
    if isinstance(each, LogRecord):
        return each.log_id
    # An estimated instant may change later and is not part of the key.
    return (each.before, each.after, each.attempt, each.reason, None if each.is_estimated else each.at)


def _instant(each: Any) -> datetime:
    instant: datetime = each.logged_at if isinstance(each, LogRecord) else each.at
    return instant
