"""Options that filter executions: the names and values of the API's filter."""

from collections.abc import Mapping
from typing import Any

import click
from marshmallow import fields

from app.cli.options import AGO, LABELS, QUEUE, TEXT, F, InstantOrAge, Value
from app.cli.shell_completion import OF_ENDPOINTS, OF_JOBS
from app.queue.reading.execution_filter import ExecutionFilter
from app.web.executions.filter_fields import LATE_OVER, Statuses


class _States(click.ParamType[str]):
    """States, in capital or small letters."""

    name = "state,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        Value(self.name, Statuses("")).convert(str(value).upper(), param, ctx)
        return str(value).upper()


class _AsGiven(click.ParamType[str]):
    """Text that a field of the API accepts; it stays as given."""

    def __init__(self, name: str, field: fields.Field[Any]) -> None:
        self.name = name
        self._value = Value(name, field)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        self._value.convert(value, param, ctx)
        return str(value)


def execution_filter_options(command: F) -> F:
    """Declare the options that filter executions, apart from their time of creation."""
    for option in (
        click.option("--scheduled-before", type=InstantOrAge(), help=AGO),
        click.option("--scheduled-after", type=InstantOrAge(), help=AGO),
        click.option("--late-over", type=_AsGiven("duration", LATE_OVER), help="began later than this: 5s, 2m"),
        click.option("--uncertain", is_flag=True, default=None, help="with an attempt that may have been delivered"),
        click.option("--error-type", type=TEXT, help="only failures with this error, such as HTTP_ERROR"),
        click.option("--idempotency-key-prefix", type=TEXT, help="only executions of jobs whose key has this prefix"),
        click.option("--idempotency-key", type=TEXT, help="only executions of jobs with this key"),
        click.option("--labels", type=LABELS, help="only of jobs with all these labels: team=billing,env=prod"),
        click.option("--name", type=TEXT, help="only executions of jobs with this name"),
        click.option("--worker", "worker_id", type=TEXT, help="only the latest attempts of this worker process"),
        click.option("--limit-key", type=TEXT, help="only executions of this limit key"),
        click.option("--queue", type=QUEUE, help="only executions in this queue"),
        click.option("--job", "--job-id", "job_id", type=TEXT, **OF_JOBS, help="only executions of this job"),
        click.option("--endpoint", type=TEXT, **OF_ENDPOINTS, help="only executions of this endpoint"),
        click.option("--status", type=_States(), help="only executions in these states"),
    ):
        command = option(command)
    return command


def filter_of(given: Mapping[str, Any]) -> ExecutionFilter:
    """Return the filter of the options."""
    values = {name: value for name, value in given.items() if value is not None}
    if "status" in values:
        values["statuses"] = Statuses("").deserialize(values.pop("status"))
    if "late_over" in values:
        values["late_over_ms"] = LATE_OVER.deserialize(values.pop("late_over"))
    return ExecutionFilter(**values)
