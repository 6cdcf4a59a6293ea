"""A column from the table to the API: each failure names the module that lacks the column."""

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from marshmallow import Schema
from sqlalchemy import Table

from app.catalog.endpoints import inline
from app.catalog.specs.http import HttpSpec
from app.features.dead_letters.redrive import Replacement, job_of_letter
from app.queue.ending.letters import DeadLetter
from app.queue.executions import materialization
from app.queue.executions.execution_insertion import OF_JOB
from app.queue.executions.execution_records import AttemptRecord, Execution, LogRecord
from app.queue.jobs import enqueue_settings, job_insertion, run_now
from app.queue.jobs.endpoint_cache import CachedEndpoint
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import Job, NewJob
from app.queue.jobs.job_update import next_version
from app.schedule.timetable import Timetable
from app.web.executions.execution_schemas import AttemptSchema, ExecutionSchema, LogLineSchema
from app.web.jobs.answer_schemas import JobSchema
from app.web.jobs.inline_fields import InlineFields
from app.web.jobs.request_schemas import ChangedJobSchema, NewJobSchema, changed_fields, new_job
from schema import functions, tables
from schema.states import CatchUp, EndpointType, Overlap, Trigger

NOW = datetime(2026, 3, 15, tzinfo=UTC)
DAILY = Timetable(cron="@daily", timezone="UTC", starts_at=NOW)
HOURLY = Timetable(every_ms=3_600_000, starts_at=NOW)
TABLES = {Trigger.CRON: DAILY, Trigger.INTERVAL: HOURLY, Trigger.IMMEDIATE: None, Trigger.DELAYED: None}
TARGET = CachedEndpoint("target", 1, EndpointType.HTTP, 3, None, None)
EXECUTION = {
    "execution_id": "exec_1",
    "execution_queue": "http",
    "execution_status": "QUEUED",
    "execution_created_at": NOW,
    "execution_scheduled_at": NOW,
    "execution_run_at": NOW,
}

# Columns that the database fills in, and fields that clients do not get.
BY_DATABASE = {"crdb_region", "created_at"}
NOT_SHOWN = {"first_version_id", "last_tick_at", "skipped_catch_up", "skipped_overlap"}
HIDDEN = {
    *("shard", "on_hold", "config_revision", "followed", "trace_context", "input"),
    *("result_retention_ms", "result_pruned_at", "expires_at", "recorded_at"),
}
EXECUTION_DEFAULTS = {
    *("crdb_region", "output", "attempt_count", "worker_id", "started_at", "completed_at", "duration_ms"),
    *("on_hold", "cancel_requested_at", "abort_requested_at", "config_revision", "trace_context", "created_at"),
    *("result_pruned_at", "recorded_at"),
}


class Reads(dict[str, Any]):
    """A row that records which columns are read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


def names_of(kind: type[Any]) -> set[str]:
    return {field.name for field in fields(kind)}


def wanted(trigger: Trigger) -> NewJob:
    return NewJob(endpoint="target", trigger=trigger, input={}, timetable=TABLES[trigger])


def row(trigger: Trigger) -> dict[str, Any]:
    params = job_insertion.params_of(wanted(trigger), TARGET, "job_1", shards=1)
    return {**job_insertion.DEFAULTS, "created_at": NOW, **params, **(EXECUTION if not trigger.repeats else {})}


def stored(trigger: Trigger) -> Job:
    return Job.from_columns(row(trigger))


def test_row_of_a_new_job_has_every_column() -> None:
    """If it fails, add the column to JOB_COLUMNS, REPEATING_COLUMNS or DEFAULTS in app.queue.jobs.job_insertion."""
    assert set(tables.jobs.c.keys()) == {*job_insertion.REPEATING_COLUMNS, *job_insertion.DEFAULTS} | BY_DATABASE


def test_te_enqueue_reads_every_setting_that_a_creator_takes() -> None:
    """If it fails, add the setting to `enqueue_settings`, to ADOPT in app.queue.jobs.enqueue_settings, and to SQL."""
    text = (Path(functions.__file__).parent / "te_enqueue.sql").read_text()
    settings = signature(Creator).parameters.keys() - {"database", "inline", "hint"}
    assert settings == {name for name in settings if f"v_settings.{name}" in text}
    assert settings <= set(tables.enqueue_settings.c.keys())
    assert settings <= signature(enqueue_settings.adopt).parameters.keys()


@pytest.mark.parametrize("trigger", Trigger)
def test_every_inserted_column_has_a_value(trigger: Trigger) -> None:
    """If it fails, set the column in params_of, in app.queue.jobs.job_insertion."""
    params = job_insertion.params_of(wanted(trigger), TARGET, "job_1", shards=1)
    assert set(job_insertion.REPEATING_COLUMNS) <= params.keys()


def test_job_holds_every_column() -> None:
    """If it fails, add a field to Job, in app.queue.jobs.job_model."""
    read = set()
    for trigger in Trigger:
        reads = Reads(row(trigger))
        Job.from_columns(reads)
        read |= reads.names
    # The maximum attempts and age come from the endpoint; the other columns are for executions or events.
    assert (
        set(tables.jobs.c.keys())
        - {"crdb_region", "max_attempts", "max_age_ms", "trace_context", "followed", "ended_at", "end_reason"}
        == read - EXECUTION.keys()
    )


def test_timetable_is_read_as_it_was_written() -> None:
    for table in (DAILY, HOURLY):
        assert Timetable.stored(table.as_columns()) == table
    assert len(DAILY.as_columns()) == len(names_of(Timetable))


def test_remembered_timetable_is_that_of_all_its_columns() -> None:
    columns = {**DAILY.as_columns(), "created_at": DAILY.starts_at}
    later = DAILY.starts_at + timedelta(days=1)
    others: dict[str, object] = {
        "cron_expression": "1 2 3 4 *",
        "cron_timezone": "Asia/Tokyo",
        "interval_ms": 5000,
        "fixed_delay": True,
        "cron_starts_at": later,
        "cron_ends_at": later,
        "catch_up": CatchUp.NONE.value,
        "max_catch_up": 7,
        "overlap": Overlap.SKIP.value,
    }
    assert {*others, "created_at"} == columns.keys()
    for name, value in others.items():
        assert columns[name] != value, name
        assert Timetable.stored({**columns, name: value}) != Timetable.stored(columns), name
    unset = {**columns, "cron_starts_at": None}
    assert [Timetable.stored({**unset, "created_at": at}).starts_at for at in (later, DAILY.starts_at)] == [
        later,
        DAILY.starts_at,
    ]


def test_next_version_keeps_every_field_that_a_client_set() -> None:
    """If it fails, copy the field in next_version, in app.queue.jobs.job_update: a PUT would drop it."""
    marks = {name: object() for name in names_of(Job)}
    old = Job(**marks)  # type: ignore[arg-type]
    new = next_version(old, {})
    # The key stays with the first version; run_at is for one-shot jobs; the timetable depends on the clock.
    kept = names_of(NewJob) & names_of(Job) - {"idempotency_key", "run_at", "timetable"}
    assert {name: getattr(new, name) for name in kept} == {name: marks[name] for name in kept}


def test_redriven_job_keeps_every_field_of_its_job() -> None:
    """If it fails, copy the field in job_of_letter, in app.features.dead_letters.redrive: a redrive would drop it."""
    marks = {name: object() for name in names_of(Job)}
    labels = {"tenant": "a"}
    letter = DeadLetter(**{**dict.fromkeys(names_of(DeadLetter)), "endpoint": marks["endpoint"], "labels": labels})
    new = job_of_letter(letter, Job(**marks), Replacement(), trace=None)  # type: ignore[arg-type]
    # A redrive runs once, at once, with a new key and the labels of the dead letter.
    kept = names_of(NewJob) & names_of(Job) - {"idempotency_key", "run_at", "timetable", "trigger", "labels"}
    assert {name: getattr(new, name) for name in kept} == {name: marks[name] for name in kept}
    assert new.labels == labels


def test_every_field_of_a_request_is_stored_in_the_job() -> None:
    """If it fails, read the field in new_job or changed_fields, in app.web.jobs.request_schemas."""
    names = NewJobSchema().fields.keys() - InlineFields().fields.keys() | {"inline"}
    body: dict[str, Any] = {name: object() for name in names} | {"trigger": Trigger.CRON}
    new = new_job(body)
    table = new.timetable
    assert table is not None
    taken = [getattr(new, name) for name in names_of(NewJob)] + [getattr(table, name) for name in names_of(Timetable)]
    assert [name for name, value in body.items() if value not in taken] == []


def test_every_field_of_a_change_is_stored() -> None:
    """If it fails, read the field in changed_fields, in app.web.jobs.request_schemas."""
    body = {name: object() for name in ChangedJobSchema().fields}
    assert set(changed_fields(body).values()) == set(body.values())


def test_every_field_of_a_new_job_can_be_requested() -> None:
    """If it fails, add the field to NewJobSchema, in app.web.jobs.request_schemas."""
    internal = {"timetable", "starts_now", "first_tick", "trace", "inline", "by", "every_ms", "delay_ms"}
    known = (names_of(NewJob) | names_of(Timetable)) - internal | {"every", "delay"}
    assert known == NewJobSchema().fields.keys() - InlineFields().fields.keys()


def test_every_field_of_an_inline_endpoint_is_described() -> None:
    """If it fails, describe the field in app.web.jobs.inline_fields."""
    assert InlineFields().fields.keys() == {*inline.FIELDS, "body"}
    assert HttpSpec().fields.keys() - {*inline.SPEC_FIELDS} == {"body_template", "soft_timeout_ms"}


def test_every_field_of_a_job_is_shown() -> None:
    """If it fails, add the field to JobSchema and its `dump`, in app.web.jobs.answer_schemas, or to NOT_SHOWN."""
    known = (names_of(Job) - {"timetable"} - NOT_SHOWN) | (names_of(Timetable) - {"every_ms"}) | {"every"}
    assert known == JobSchema().fields.keys()
    shown = set().union(*(JobSchema().dump(stored(trigger)) for trigger in Trigger))
    assert shown == JobSchema().fields.keys()


@pytest.mark.parametrize(
    "statement",
    [job_insertion.ONE_SHOT, job_insertion.ONE_SHOTS, run_now.EXTRA, materialization.MATERIALIZE],
    ids=["one", "several", "run", "materialize"],
)
def test_row_of_a_new_execution_has_every_column(statement: Any) -> None:
    """Else add it to OF_JOB or to insert_executions, in `execution_insertion`, or to EXECUTION_DEFAULTS."""
    (inserted,) = re.findall(r"INSERT INTO executions \(([^)]*)\)", statement.text)
    assert set(tables.executions.c.keys()) == set(inserted.split(", ")) | EXECUTION_DEFAULTS
    assert set(OF_JOB) <= set(tables.jobs.c.keys())


@pytest.mark.parametrize(
    ("table", "record", "schema", "hidden"),
    [
        (tables.executions, Execution, ExecutionSchema, HIDDEN),
        (tables.attempts, AttemptRecord, AttemptSchema, {"led_to"}),
        (tables.execution_logs, LogRecord, LogLineSchema, set[str]()),
    ],
    ids=["execution", "attempt", "log line"],
)
def test_every_column_of_a_row_is_shown_or_hidden(
    table: Table, record: type[Any], schema: type[Schema], hidden: set[str]
) -> None:
    """If it fails, add the column to the record (`execution_model`) and `execution_schemas`, or to `hidden`."""
    # `last_error` comes from another table, `workflow` from the idempotency key.
    assert names_of(record) - {"last_error"} == set(table.c.keys()) - hidden - {"crdb_region"}
    assert schema().fields.keys() - hidden - {"workflow"} == names_of(record)
