"""Calls of the SQL functions `te_enqueue` and `te_send`: their arguments and statements."""

import difflib
import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

from .call import encoded, instant


class Options(TypedDict, total=False):
    """Optional fields of a job; None is the same as a missing field.

    Attributes:
        idempotency_key: Key of the purpose, such as an order's number: a second call with the key creates no job.
        run_at: Instant at which the job is due, with a time zone; now by default.
        delay: Time from now until the job is due, such as `10m`, or milliseconds; instead of `run_at`.
        name: Name of the job.
        labels: Labels of the job, for filters.
        queue: Queue of the execution; the endpoint's queue by default.
        priority: Priority of the execution; the endpoint's priority by default.
        traceparent: W3C trace context that the delivery continues.
        schema: Schema of te_enqueue, if it is not on the search_path.
    """

    idempotency_key: str | None
    run_at: datetime | None
    delay: timedelta | str | int | None
    name: str | None
    labels: Mapping[str, str] | None
    queue: str | None
    priority: int | None
    traceparent: str | None
    schema: str | None


class SendOptions(Options, total=False):
    """Optional fields of a job with a URL; None is the same as a missing field.

    Attributes:
        method: HTTP method; `POST` by default.
        headers: Headers without secrets.
        timeout_ms: Limit of an attempt, in milliseconds; 30,000 by default.
        expected_status_codes: Statuses that are a success; 200, 201, 202 and 204 by default.
        signing: Secrets that sign the request, such as `{"secret": "{{secret.webhook_key}}"}`.
        retry_policy: Retry policy; one attempt by default.
    """

    method: str | None
    headers: Mapping[str, str] | None
    timeout_ms: int | None
    expected_status_codes: Sequence[int] | None
    signing: Mapping[str, str] | None
    retry_policy: Mapping[str, Any] | None


# Type in which each argument is sent, and type of the function's parameter. Preparing drivers encode by the first.
_OPTIONS = (
    ("text", "text"),
    ("text", "timestamptz"),
    ("text", "interval"),
    ("text", "text"),
    ("text", "jsonb"),
    ("text", "text"),
    ("bigint", "bigint"),
    ("text", "text"),
)
ARGUMENTS = (("text", "text"), ("text", "jsonb"), *_OPTIONS)
SEND_ARGUMENTS = (
    ("text", "text"),
    ("text", "jsonb"),
    ("text", "text"),
    ("text", "jsonb"),
    ("bigint", "bigint"),
    ("text", "jsonb"),
    ("text", "jsonb"),
    ("text", "jsonb"),
    *_OPTIONS,
)


@dataclass(frozen=True, slots=True)
class SqlCall:
    function: str
    schema: str | None
    arguments: Sequence[tuple[str, str]]
    values: tuple[Any, ...]

    def statement(self, *, numbered: bool = False) -> str:
        arguments = (
            f"CAST(CAST({f'${number}' if numbered else '%s'} AS {given}) AS {taken})"
            for number, (given, taken) in enumerate(self.arguments, 1)
        )
        where = "" if self.schema is None else '"' + self.schema.replace('"', '""') + '".'
        # The text contains only fixed names and the quoted schema.
        return f"SELECT job_id, execution_id, is_new FROM {where}{self.function}({', '.join(arguments)})"  # noqa: S608


# Options of repeating jobs: cron and time zones follow rules of the service, which the database does not have.
_REPEATING = {"cron", "timezone", "every", "fixed_delay", "starts_at", "ends_at", "catch_up", "max_catch_up", "overlap"}


def _check(options: Mapping[str, Any], known: AbstractSet[str]) -> None:
    """Raise TypeError for an unknown option, which would otherwise have no effect."""
    for name in sorted(options.keys() - known):
        if name in _REPEATING:
            remedy = "a job in your transaction runs once; create a repeating job by te.jobs.create or te.send"
        else:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"known options: {', '.join(sorted(known))}"
        raise TypeError(f"unknown option {name!r}: {remedy}")


def enqueuing(endpoint: str, data: Mapping[str, Any] | None, options: Options) -> SqlCall:
    _check(options, Options.__optional_keys__)
    values = (endpoint, encoded({} if data is None else data).decode(), *_values(options))
    return SqlCall("te_enqueue", options.get("schema"), ARGUMENTS, values)


def sending(url: str, body: Any, options: SendOptions) -> SqlCall:
    _check(options, SendOptions.__optional_keys__)
    values = (
        url,
        _json(body),
        options.get("method"),
        _json(options.get("headers")),
        options.get("timeout_ms"),
        _json(options.get("expected_status_codes")),
        _json(options.get("signing")),
        _json(options.get("retry_policy")),
        *_values(options),
    )
    return SqlCall("te_send", options.get("schema"), SEND_ARGUMENTS, values)


def _values(options: Options) -> tuple[Any, ...]:
    run_at, labels = options.get("run_at"), options.get("labels")
    return (
        options.get("idempotency_key"),
        None if run_at is None else instant(run_at),
        _interval(options.get("delay")),
        options.get("name"),
        None if labels is None else json.dumps(dict(labels)),
        options.get("queue"),
        options.get("priority"),
        options.get("traceparent"),
    )


def _json(value: Any) -> str | None:
    return None if value is None else encoded(value).decode()


def _interval(delay: timedelta | str | int | None) -> str | None:
    """Return a delay as PostgreSQL reads it."""
    if isinstance(delay, timedelta):
        delay = delay // timedelta(milliseconds=1)
    return f"{delay} ms" if isinstance(delay, int) else delay
