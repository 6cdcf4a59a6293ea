"""`flask executions tail`: follow an execution to its end, or all changes of executions."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import click
from flask.cli import with_appcontext

from app.cli import commands
from app.cli.commands import FAILED, ready_database
from app.cli.console import json_option, polls, print_json, show_line, shown
from app.cli.execution_filter_options import execution_filter_options, filter_of
from app.cli.options import Number, gather
from app.cli.shell_completion import OF_EXECUTIONS
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.errors import ExecutionNotFoundError
from app.kernel.formats import EPOCH
from app.queue.executions.execution_records import Execution, ExecutionWithInput, LogRecord
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_history import HistoryStep, history_of
from app.queue.reading.execution_list import page_of_executions
from app.queue.reading.execution_queries import find_executions, get_execution
from app.queue.reading.log_lines import logs_of
from app.web.executions.execution_schemas import LogLineSchema, StepSchema
from app.web.services import services
from schema.states import FINAL, ExecutionStatus

MAX_AT_ONCE = 500  # executions of a poll; beyond that only the newest are reported
MAX_OPEN = 500  # executions that are read again until they end
MAX_LINES = 200
END_POLL_SECONDS = 0.2
# Rows of transactions that take longer than this to commit are missed.
OVERLAP = timedelta(seconds=15)


class TailedChange(NamedTuple):
    """State change of an execution, with its row as read shortly before."""

    execution: Execution
    step: HistoryStep


class _Open(NamedTuple):
    """Execution without an end: its row as last read, and the keys of its reported changes."""

    row: Execution
    keys: frozenset[object]


@dataclass(slots=True)
class Follower:
    """Detector of state changes of new and open executions since the previous poll.

    A poll takes two statements, and a statement for each changed execution.
    """

    database: Database
    wanted: ExecutionFilter
    look_ahead: timedelta
    _since: datetime = EPOCH
    _open: dict[str, _Open] = field(default_factory=dict)
    _reported: dict[str, datetime] = field(default_factory=dict)

    def begin(self) -> None:
        """Record the changes of the newest and of all open executions as known."""
        newest = page_of_executions(self.database, replace(self.wanted, statuses=()), PageRequest(1)).items
        self._since = newest[0].created_at if newest else EPOCH
        self.poll()
        for status in ExecutionStatus:
            if status not in FINAL:
                self._changes_of([], self._read(replace(self.wanted, statuses=(status,))))

    def poll(self) -> list[TailedChange]:
        """Return the new changes in their order."""
        new = self._read(replace(self.wanted, statuses=(), created_after=self._since - OVERLAP))
        found = {each.execution_id: each for each in new if each.execution_id not in self._reported}
        found |= {each.execution_id: each for each in find_executions(self.database, list(self._open))}
        changed = [row for key, row in found.items() if key not in self._open or self._open[key].row != row]
        changes = self._changes_of(new, changed)
        wanted = [each for each in changes if not self.wanted.statuses or each.step.after in self.wanted.statuses]
        return sorted(wanted, key=attrgetter("step.at", "execution.execution_id"))

    def _read(self, wanted: ExecutionFilter) -> list[Execution]:
        return gather(partial(page_of_executions, self.database, wanted), MAX_AT_ONCE)[0]

    def _changes_of(self, new: list[Execution], changed: list[Execution]) -> list[TailedChange]:
        """Return the unreported changes of changed executions, and note them as reported."""
        self._since = max([self._since, *(each.created_at for each in new)])
        changes = list[TailedChange]()
        for each in changed:
            before = self._open.pop(each.execution_id, None)
            known = frozenset[object]() if before is None else before.keys
            steps = {_key(step): step for step in self._steps_of(each.execution_id)}
            changes += [TailedChange(each, step) for key, step in steps.items() if key not in known]
            self._reported[each.execution_id] = each.created_at
            if each.status not in FINAL:
                self._open[each.execution_id] = _Open(each, known | steps.keys())
        self._forget()
        return changes

    def _steps_of(self, execution_id: str) -> list[HistoryStep]:
        try:
            return history_of(self.database, execution_id, look_ahead=self.look_ahead).steps
        except ExecutionNotFoundError:  # deleted since it was read
            return []

    def _forget(self) -> None:
        """Forget the oldest open executions beyond MAX_OPEN, and ended executions that no poll finds again."""
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
@execution_filter_options
@click.option("--every", type=Number(0.2, 60), default=1.0, show_default=True, help="seconds between polls")
@json_option
@with_appcontext
def command(execution_id: str | None, every: float, as_json: bool, **filters: Any) -> None:
    """Follow new executions and their changes until Ctrl-C, or EXECUTION_ID until its end.

    Each state change is a line, also if several happen between two polls. With an id the exit status is 0 after
    SUCCESS, and 1 after any other end or Ctrl-C. --json prints a line for each change.
    """
    if execution_id is not None and any(filters.values()):
        raise click.UsageError("use either EXECUTION_ID or filter options")
    try:
        with ready_database() as database:
            look_ahead = timedelta(seconds=services().settings.look_ahead_seconds)
            if execution_id is None:
                _follow(Follower(database, filter_of(filters), look_ahead), every, as_json=as_json)
            else:
                ended = _accompany(Life(database, execution_id, look_ahead), every, as_json=as_json)
                raise click.exceptions.Exit(0 if ended is ExecutionStatus.SUCCESS else FAILED)
    except KeyboardInterrupt:
        # Ctrl-C before the end must not look like success to a script.
        raise click.exceptions.Exit(0 if execution_id is None else FAILED) from None


def until_its_end(database: Database, execution_id: str) -> ExecutionWithInput:
    """Wait for the end of an execution and return it; raises ExecutionNotFoundError."""
    while (found := get_execution(database, execution_id)).status not in FINAL:
        time.sleep(END_POLL_SECONDS)
    return found


def at(step: HistoryStep) -> str:
    """Format the instant of a step; `~` marks an estimate."""
    return f"{'~' if step.is_estimated else ''}{shown(step.at)}"


def _follow(follower: Follower, every: float, *, as_json: bool) -> None:
    follower.begin()
    click.echo("following executions; press Ctrl-C to stop", err=True)
    for _ in polls(every):
        for each in follower.poll():
            if as_json:
                ids = {name: getattr(each.execution, name) for name in ("execution_id", "job_id", "endpoint")}
                print_json(ids | dict(StepSchema().dump(each.step)), lines=True)
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
                attempt = f"attempt {each.attempt_number}"
                text = each.message if each.message.startswith(attempt) else f"{attempt}: {each.message}"
                show_line(f"{shown(each.logged_at)}  {each.level:<9}  {text}")
            else:
                show_line(f"{at(each)}  {each.after:<9}  {_worded(each)}")
        if status in FINAL:
            return status
    raise KeyboardInterrupt


def _columns(change: TailedChange) -> Iterator[str]:
    each, step = change
    yield at(step)
    yield f"{step.after:<9}"
    yield each.execution_id
    yield each.endpoint
    error = each.last_error or {}
    is_its_error = step.reason == error.get("type") and step.attempt == each.attempt_count
    yield f"{_worded(step)}: {error.get('message', '')}" if is_its_error else _worded(step)


def _worded(step: HistoryStep) -> str:
    attempt = f", attempt {step.attempt}" if step.attempt else ""
    by = f" by {step.actor}" if step.actor else ""
    return f"{step.reason}{attempt}{by}"


def _key(each: HistoryStep | LogRecord) -> object:
    if isinstance(each, LogRecord):
        return each.log_id
    # An estimated instant may change later and is not part of the key.
    return (each.before, each.after, each.attempt, each.reason, None if each.is_estimated else each.at)


def _instant(each: Any) -> datetime:
    instant: datetime = each.logged_at if isinstance(each, LogRecord) else each.at
    return instant
