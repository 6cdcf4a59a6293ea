"""Job insertion: each statement also checks that the cached endpoint is current.

`e` is empty if the endpoint has changed. `j` is empty if the key is taken, or if an earlier run of the statement was
committed. The statement then returns no row, and a second statement distinguishes the cases. FOR KEY SHARE blocks a
new version and a deletion of the endpoint; the deletion then finds the job. It does not block a change of queue,
priority, limits or pause: under FOR SHARE, a flood of jobs would keep an endpoint from being paused on PostgreSQL.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from operator import itemgetter
from typing import Any

from sqlalchemy import Row

from app.catalog.endpoints.callback_targets import merged
from app.catalog.endpoints.limits import NO_KEY, limit_key_of
from app.kernel import ids
from app.kernel.formats import EPOCH, array_literal, compact_json
from app.kernel.sql import hot_statement, statement
from app.queue.ending.subscriptions import followed_for
from app.queue.executions.execution_insertion import OF_ENDPOINT, OF_JOB_FOR_EXECUTION, insert_executions
from app.queue.jobs.endpoint_cache import CachedEndpoint
from app.queue.jobs.job_model import Job, NewJob
from app.schedule.timetable import Timetable
from schema import tables
from schema.states import JobStatus

JOB_COLUMNS = (
    *("job_id", "endpoint", "endpoint_version", "endpoint_type", "trigger_type", "idempotency_key", "name", "labels"),
    *("queue", "priority", "limit_key", "input", "max_attempts", "max_age_ms", "run_at", "trace_context"),
    *("callbacks", "followed", "callback_of"),
)
REPEATING_COLUMNS = (
    *JOB_COLUMNS,
    *("status", "version", "previous_version_id", "first_version_id", "cron_expression", "cron_timezone"),
    *("cron_starts_at", "cron_ends_at", "interval_ms", "fixed_delay", "cron_next_run_at"),
    *("catch_up", "max_catch_up", "overlap"),
)
# Initial values of the other columns, which therefore need no read.
DEFAULTS: dict[str, Any] = {"skipped_catch_up": 0, "skipped_overlap": 0} | dict.fromkeys(
    ("replaced_by_id", "cron_last_tick_at", "paused_at", "retired_at", "ended_at", "end_reason")
)
# Parameters without a column in `jobs`: the version of the payload spec, the flow revision that the limit key was
# rendered with, and a one-shot job's execution and delay.
_MORE = {
    "spec_updated_at": "TIMESTAMPTZ",
    "flow_revision": "BIGINT",
    "execution_id": "TEXT",
    "shard": "BIGINT",
    "delay_ms": "BIGINT",
}
# A statement for several jobs gets each cached endpoint once, and each job the number of its endpoint.
_NUMBERS = {"number": "BIGINT", "target": "BIGINT"}

_TYPES = {name: str(tables.jobs.c[name].type).replace("DATETIME", "TIMESTAMPTZ") for name in REPEATING_COLUMNS} | _MORE
# CockroachDB has no arrays of JSONB.
_ARRAYS = {name: "TEXT" if type_ == "JSONB" else type_ for name, type_ in (_TYPES | _NUMBERS).items()}
_ONE = {name: f"CAST(:{name} AS {type_})" for name, type_ in _TYPES.items()}
_EACH = {name: f"CAST(u.{name} AS {type_})" if type_ == "JSONB" else f"u.{name}" for name, type_ in _TYPES.items()}
_OF_TARGET = (
    *("endpoint", "endpoint_version", "endpoint_type", "max_attempts", "max_age_ms"),
    *("spec_updated_at", "flow_revision"),
)
# unnest fills a shorter array up with NULLs.
_SEVERAL = _EACH | {name: f"e.{name}" for name in _OF_TARGET} | {"limit_key": "COALESCE(u.limit_key, '')"}
# A delay counts by the database's clock, since those of web processes may differ.
_DELAYED = "COALESCE({run_at}, now() + {delay_ms} * INTERVAL '1 millisecond')"
_OF_ONE, _OF_SEVERAL = (each | {"run_at": _DELAYED.format(**each)} for each in (_ONE, _SEVERAL))
_OF_ONE_SHOT = tuple(name for name in (*JOB_COLUMNS, *_MORE) if name not in _OF_TARGET)
_OF_REPEATING = tuple(name for name in REPEATING_COLUMNS if name not in _OF_TARGET)


def _unnested(names: Iterable[str], alias: str) -> str:
    arrays = {name: f"CAST(:{name} AS {_ARRAYS[name]}[])" for name in names}
    return f"unnest({', '.join(arrays.values())}) AS {alias} ({', '.join(arrays)})"


_FLOW = ", ".join(f"e.{name}" for name in OF_ENDPOINT)


def _of_several(names: Iterable[str]) -> str:
    return f"""
    WITH e AS (
      SELECT t.*, {_FLOW} FROM {_unnested(("number", *_OF_TARGET), "t")}
        JOIN endpoints e ON e.name = t.endpoint AND e.version = t.endpoint_version
        LEFT JOIN payload_specs p ON p.name = e.payload_spec_ref
       WHERE e.deleted_at IS NULL AND e.flow_revision = t.flow_revision
         AND p.updated_at IS NOT DISTINCT FROM t.spec_updated_at
         FOR KEY SHARE OF e),
    u AS (
      SELECT * FROM {_unnested(("target", *names), "u")})"""  # noqa: S608 - constants of this module


def _insert_jobs(columns: Iterable[str], values: Mapping[str, str]) -> str:
    expressions = {name: values[name] for name in columns}
    if "status" in expressions:
        expressions["paused_at"] = f"CASE WHEN {values['status']} = '{JobStatus.PAUSED}' THEN now() END"
    return f"""INSERT INTO jobs ({", ".join(expressions)})
      SELECT {", ".join(expressions.values())}"""


def _insert_executions(values: Mapping[str, str]) -> str:
    # The database's clock decides whether a delayed job waits for the promoter.
    waits = "j.due > now() + CAST(:look_ahead_ms AS BIGINT) * INTERVAL '1 millisecond'"
    return insert_executions(
        "j",
        "e",
        execution_id=values["execution_id"],
        shard=values["shard"],
        idempotency_key="j.idempotency_key",
        status=f"CASE WHEN {waits} THEN 'PENDING' ELSE 'QUEUED' END",
        scheduled_at="j.due",
    )


# A time in the past means now, so that an old date does not move a job to the head of the queue.
_FOR_EXECUTION = f"{', '.join(OF_JOB_FOR_EXECUTION)}, idempotency_key, GREATEST(COALESCE(run_at, now()), now()) AS due"
# Queue and priority of the execution's row, whether they come from the job, the endpoint or the routes.
_ANSWER = "created_at, queue AS execution_queue, priority AS execution_priority, status AS execution_status"

ONE_SHOT = hot_statement(
    "jobs.create_one_shot",
    """
    WITH e AS (
      SELECT {flow} FROM endpoints e LEFT JOIN payload_specs p ON p.name = e.payload_spec_ref
       WHERE e.name = :endpoint AND e.version = :endpoint_version AND e.deleted_at IS NULL
         AND p.updated_at IS NOT DISTINCT FROM CAST(:spec_updated_at AS TIMESTAMPTZ)
         AND e.flow_revision = :flow_revision
         FOR KEY SHARE OF e),
    j AS (
      {insert_jobs}
        FROM e
      ON CONFLICT DO NOTHING
      RETURNING {for_execution})
    {insert_executions}
        FROM j CROSS JOIN e
    RETURNING {answer}
    """,
    flow=_FLOW,
    insert_jobs=_insert_jobs(JOB_COLUMNS, _OF_ONE),
    for_execution=_FOR_EXECUTION,
    insert_executions=_insert_executions(_ONE),
    answer=_ANSWER,
)
# Several jobs. The answer omits a job if its endpoint has changed or its key is taken.
ONE_SHOTS = hot_statement(
    "jobs.create_one_shots",
    """{of_several},
    j AS (
      {insert_jobs}
        FROM u JOIN e ON e.number = u.target
      ON CONFLICT DO NOTHING
      RETURNING {for_execution})
    {insert_executions}
        FROM j JOIN u ON u.job_id = j.job_id JOIN e ON e.number = u.target
    RETURNING job_id, {answer}
    """,
    of_several=_of_several(_OF_ONE_SHOT),
    insert_jobs=_insert_jobs(JOB_COLUMNS, _OF_SEVERAL),
    for_execution=_FOR_EXECUTION,
    insert_executions=_insert_executions(_SEVERAL),
    answer=_ANSWER,
)
REPEATING = statement(
    "jobs.create_repeating",
    """{of_several}
    {insert_jobs}
        FROM u JOIN e ON e.number = u.target
    ON CONFLICT DO NOTHING
    RETURNING job_id, created_at, paused_at
    """,
    of_several=_of_several(_OF_REPEATING),
    insert_jobs=_insert_jobs(REPEATING_COLUMNS, _SEVERAL),
)

_NOTHING = {None, NO_KEY}
_target_of = itemgetter(*_OF_TARGET)
_NO_EXECUTION = {"execution_id": None, "shard": None}
_NO_TIMETABLE = Timetable(starts_at=EPOCH).as_columns() | {"cron_starts_at": None}


def params_of(new: NewJob, target: CachedEndpoint, job_id: str, shards: int) -> dict[str, Any]:
    """Return the parameters of the statements for the first version of a job."""
    params: dict[str, Any] = {
        "job_id": job_id,
        "endpoint": target.name,
        "endpoint_version": target.version,
        "endpoint_type": target.type.value,
        "spec_updated_at": target.spec_updated_at,
        "flow_revision": target.flow_revision,
        "max_attempts": target.max_attempts,
        "max_age_ms": target.max_age_ms,
        "trigger_type": new.trigger.value,
        "status": JobStatus.ACTIVE.value,
        "version": 1,
        "previous_version_id": None,
        "first_version_id": None,
        "idempotency_key": new.idempotency_key,
        "name": new.name,
        "labels": compact_json(new.labels) if new.labels else None,
        "queue": new.queue,
        "priority": new.priority,
        "limit_key": NO_KEY if target.limit_key is None else limit_key_of(target.limit_key, new.input),
        "input": compact_json(new.input),
        "run_at": new.run_at,
        "delay_ms": new.delay_ms,
        "trace_context": None if new.trace is None else new.trace.as_text(is_link=new.timetable is not None),
        "cron_next_run_at": new.first_tick,
        "callbacks": None if new.callbacks is None else compact_json(new.callbacks),
        "followed": None,
        "callback_of": None,
    }
    if target.callbacks or new.callbacks:
        params["followed"] = followed_for(merged(target.callbacks, new.callbacks))
    if new.timetable is not None:
        return params | new.timetable.as_columns() | _NO_EXECUTION
    execution_id = ids.execution_id()
    execution = {"execution_id": execution_id, "shard": ids.shard_of(execution_id, shards)}
    return params | _NO_TIMETABLE | execution


def params_of_another(
    params: Mapping[str, Any], target: CachedEndpoint, input_: dict[str, Any], shards: int
) -> dict[str, Any]:
    """Return the parameters of one more one-shot job of an endpoint; only ids, limit key and input differ."""
    execution_id = ids.execution_id()
    return {
        **params,
        "job_id": ids.job_id(),
        "execution_id": execution_id,
        "shard": ids.shard_of(execution_id, shards),
        "limit_key": NO_KEY if target.limit_key is None else limit_key_of(target.limit_key, input_),
        "input": compact_json(input_),
    }


def params_of_several(each: Iterable[Mapping[str, Any]], *, repeating: bool = False) -> dict[str, Any]:
    """Return the parameters of ONE_SHOTS or REPEATING for jobs with the same look-ahead."""
    # In key order, so that two groups with equal keys do not deadlock.
    ordered = sorted(each, key=lambda params: (params["endpoint"], params["idempotency_key"] or ""))
    numbers: dict[tuple[Any, ...], int] = {}
    targets = [numbers.setdefault(_target_of(params), len(numbers)) for params in ordered]
    of_targets = zip(_OF_TARGET, zip(*numbers, strict=True), strict=True)
    names = _OF_REPEATING if repeating else _OF_ONE_SHOT
    columns: dict[str, Any] = {name: [params[name] for params in ordered] for name in names}
    # An empty array for a column that no job has.
    columns = {
        name: "{}" if name != "input" and set(values) <= _NOTHING else array_literal(values)
        for name, values in columns.items()
    }
    columns |= {name: list(values) for name, values in of_targets}
    columns["look_ahead_ms"] = ordered[0].get("look_ahead_ms")
    return columns | {"number": list(numbers.values()), "target": array_literal(targets)}


def inserted(new: NewJob, params: Mapping[str, Any], row: Row[Any]) -> Job:
    """Build the job that a statement inserted, equal to a read of the job."""
    given: dict[str, Any] = {"input": new.input, "labels": new.labels, "callbacks": new.callbacks}
    delay = None if new.delay_ms is None else timedelta(milliseconds=new.delay_ms)
    given["run_at"] = run_at = new.run_at if delay is None else row.created_at + delay
    given["execution_created_at"] = row.created_at
    given["execution_scheduled_at"] = given["execution_run_at"] = max(run_at or row.created_at, row.created_at)
    return Job.from_columns({**DEFAULTS, **params, **row._asdict(), **given})
