"""Bounds of a job: the request schema, its fast path and te_enqueue accept and refuse the same values.

All of them read `schema/job_bounds.py`. The cases have a value at each bound, and a value just beyond it.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text
from task_executor_client.transaction import EnqueueError, enqueue

from app.catalog import payload_validator
from app.kernel.db import Database
from schema import job_bounds
from tests.enqueueing import adopt_settings
from tests.integration.client import Api
from tests.integration.registered import register

DAY_MS = 86_400_000
LAST = datetime(2199, 12, 31, 23, 59, 59, tzinfo=UTC)


def nested(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


# By the name of the bound: a field, a value that all accept, and a value that all refuse.
CASES: dict[str, tuple[str, Any, Any]] = {
    "MAX_IDEMPOTENCY_KEY": ("idempotency_key", "k" * 255, "k" * 256),
    "OWN_KEY_PREFIX": ("idempotency_key", "te", "te:k"),
    "MAX_JOB_NAME": ("name", "n" * 200, "n" * 201),
    "MAX_PRIORITY": ("priority", 255, 256),
    "EARLIEST_INSTANT": ("run_at", datetime(1970, 1, 1, tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    "LATEST_INSTANT": ("run_at", LAST, LAST + timedelta(seconds=1)),
    "MAX_DELAY_DAYS": ("delay", "3650d", "3651d"),
    "MAX_DELAY_MS": ("delay", 3650 * DAY_MS, 3650 * DAY_MS + 1),
    "MAX_JSON_DEPTH": ("input", {"x": nested(99)}, {"x": nested(100)}),
    "MAX_NUMBER": ("input", {"x": job_bounds.MAX_NUMBER}, {"x": 10**309}),
    "QUEUE_NAME": ("queue", "q" * 63, "q" * 64),
    "MAX_LABELS": ("labels", {f"k{n}": "" for n in range(32)}, {f"k{n}": "" for n in range(33)}),
    "MAX_LABEL_PREFIX": ("labels", {f"{'a.' * 126}a/b": ""}, {f"{'a.' * 126}aa/b": ""}),
    "MAX_LABEL_PART": ("labels", {"k" * 63: "v" * 63}, {"k" * 64: ""}),
    "LABEL_KEY": ("labels", {"example.com/env": ""}, {"a b": ""}),
    "LABEL_VALUE": ("labels", {"k": "a.b"}, {"k": "c\n"}),
}
# Bounds that the three places apply differently, with the reason.
DIFFERENT = {
    "MAX_NAME": "of the endpoint: the API answers that no endpoint has a longer name",
    "MAX_INPUT_BYTES": "the API bounds the whole body, by TE_MAX_BODY_BYTES",
    "NAME_PATTERN": "of names in settings, scopes and filters: no field of a job has one",
    "ACTOR_QUEUE_PATTERN": "of queues in scopes of API keys; no job has one",
    "MAX_LIMIT_KEY": "the API replaces a longer value by its digest",
}


def by_api(api: Api, field: str, value: Any, **more: Any) -> str | None:
    """Create a job by the API, and return the code of its error; None for no error."""
    written = value.isoformat() if isinstance(value, datetime) else value
    trigger = "DELAYED" if field in {"run_at", "delay"} else "IMMEDIATE"
    answer = api.post(
        "/jobs", {"endpoint": "target", "trigger": trigger, "idempotency_key": "k"} | more | {field: written}
    )
    return None if answer.status_code in {200, 201} else answer.json["error"]["code"]


def by_te_enqueue(database: Database, field: str, value: Any) -> str | None:
    """Create a job by te_enqueue and roll it back; return the code of its error, None for no error."""
    with database.engine.connect() as connection:
        try:
            enqueue(connection, "target", **{"idempotency_key": "k"} | {field: value})
        except EnqueueError as error:
            return error.code
        finally:
            connection.rollback()
    return None


def test_each_bound_has_a_case_or_a_reason() -> None:
    bounds = {name for name in vars(job_bounds) if re.fullmatch(r"[A-Z][A-Z_]+", name) and name != "UTC"}
    assert bounds == CASES.keys() | DIFFERENT.keys()


@pytest.mark.postgresql_only
def test_schema_fast_path_and_te_enqueue_have_the_same_bounds(api: Api, database: Database) -> None:
    register(api)
    adopt_settings(database)
    for name, (field, accepted, refused) in CASES.items():
        for value, expected in ((accepted, None), (refused, "INVALID_REQUEST")):
            # A body with only plain fields takes the fast path; null has no effect but takes the schema.
            found = (
                by_api(api, field, value),
                by_api(api, field, value, callbacks=None),
                by_te_enqueue(database, field, value),
            )
            assert found == (expected, expected, expected), (name, value)


TYPES: list[Any] = [*("string", "integer", "number", "boolean", "null", "array", "object"), ["string", "null"]]
INPUTS: list[dict[str, Any]] = [
    {},
    {"a": 1, "b": 1},
    *({"a": value} for value in ("", 1, 1.0, 1.5, 1e30, True, None, [], {})),
]


@pytest.mark.postgresql_only
def test_te_enqueue_checks_the_top_level_of_an_input_as_the_api_does(api: Api, database: Database) -> None:
    assert api.post("/payload-specs", {"name": "spec", "schema": {}}).status_code == 201
    register(api, payload_spec="spec")
    adopt_settings(database)
    change = text("UPDATE payload_specs SET schema_json = CAST(:schema AS JSONB) RETURNING name")
    for of_a in TYPES:
        for more in ({"required": ["a"]}, {"additionalProperties": False}, {}):
            schema = {"type": "object", "properties": {"a": {"type": of_a}}} | more
            database.fetch(change, {"schema": json.dumps(schema)})
            for given in INPUTS:
                expected = "INPUT_VALIDATION_FAILED" if payload_validator.compiled(schema).faults(given) else None
                assert by_te_enqueue(database, "input", given) == expected, (schema, given)
