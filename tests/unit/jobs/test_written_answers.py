"""Hand-written serialisation of jobs: the same text as a generic dump of the schema."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from marshmallow import Schema, fields

from app.queue.jobs.job_model import ExecutionSummary, Job
from app.schedule.timetable import Timetable
from app.web.jobs.answer_schemas import ExecutionSummarySchema, JobSchema
from app.web.jobs.batch_api import BatchErrorSchema, BatchItemSchema, BatchResultSchema
from schema.states import CatchUp, EndpointType, ExecutionStatus, JobStatus, Overlap, Trigger

AT = datetime(2026, 3, 15, 9, 30, 0, 123456, tzinfo=UTC)
WHOLE = datetime(2026, 3, 15, tzinfo=UTC)
ONCE = Job(
    job_id="job_1",
    endpoint="mail",
    endpoint_type=EndpointType.REDIS_STREAM,
    endpoint_version=3,
    trigger=Trigger.IMMEDIATE,
    status=JobStatus.ACTIVE,
    version=1,
    previous_version_id=None,
    replaced_by_id=None,
    first_version_id=None,
    idempotency_key="key",
    name=None,
    labels={},
    queue=None,
    priority=None,
    limit_key="",
    input={"é": [1, 2.5, None, {"n": 10**30}]},
    run_at=None,
    timetable=None,
    next_run_at=None,
    last_tick_at=None,
    skipped_catch_up=0,
    skipped_overlap=0,
    callbacks=None,
    callback_of=None,
    created_at=AT,
    paused_at=None,
    retired_at=None,
    execution=ExecutionSummary("exec_1", "http", ExecutionStatus.QUEUED, *[WHOLE] * 3),
)
LATER = replace(ONCE, trigger=Trigger.DELAYED, run_at=WHOLE.astimezone(timezone(timedelta(hours=5, minutes=30))))
DAILY = Timetable(cron="@daily", timezone="Asia/Kolkata", starts_at=WHOLE)
HOURLY = Timetable(every_ms=5000, fixed_delay=True, starts_at=AT, ends_at=WHOLE, catch_up=CatchUp.LATEST)
CRON = replace(ONCE, trigger=Trigger.CRON, timetable=DAILY, execution=None, idempotency_key=None, next_run_at=AT)
INTERVAL = replace(CRON, trigger=Trigger.INTERVAL, timetable=replace(HOURLY, overlap=Overlap.SKIP, max_catch_up=5))
JOBS = [
    ONCE,
    LATER,
    replace(
        LATER,
        execution=None,
        name="Mail",
        callbacks={"on_success": "done", "on_failure": None},
        callback_of="exec_0",
        queue="bulk",
        priority=0,
        limit_key="=acme",
        labels={"team": "mail"},
        retired_at=AT,
        status=JobStatus.RETIRED,
    ),
    CRON,
    replace(CRON, idempotency_key="key", previous_version_id="job_0", replaced_by_id="job_2", paused_at=WHOLE),
    INTERVAL,
    replace(INTERVAL, next_run_at=None),
]


def dumped(schema: Schema, values: object) -> Any:
    """Dump field by field, as schemas without hand-written serialisation do."""
    return Schema.dump(schema, values)


def given(job: Job) -> dict[str, Any]:
    """Return the values of the shown fields; fields that are shown in another text form have their shown values."""
    shown, owners = JobSchema().dump(job), (job, job.timetable)
    values = {
        name: next(getattr(owner, name) for owner in owners if hasattr(owner, name))
        for name in shown.keys() - {"every"}
    }
    return values | {name: shown[name] for name in ("every", "next_run_at") if name in shown}


@pytest.mark.parametrize("job", JOBS)
def test_job_is_written_as_its_schema_would_dump_it(job: Job) -> None:
    schema = JobSchema()
    assert json.dumps(schema.dump(job)) == json.dumps(dumped(schema, given(job)))


def test_example_jobs_cover_every_field() -> None:
    assert set().union(*(JobSchema().dump(job) for job in JOBS)) == JobSchema().fields.keys()
    execution = JobSchema().dump(ONCE)["execution"]
    assert list(execution) == list(ExecutionSummarySchema().fields)


def test_schema_of_a_batch_lists_the_fields_of_its_answer() -> None:
    """The fields are compared with the fields that the view returns."""
    assert list(BatchResultSchema().fields) == ["items"]
    assert list(BatchItemSchema().fields) == ["status", "job", "error"]
    nested = BatchItemSchema().fields["error"]
    assert isinstance(nested, fields.Nested)
    assert isinstance(nested.schema, BatchErrorSchema)
