"""Fast reading of plain job requests: the same result and the same errors as with the full schema."""

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from marshmallow import Schema, ValidationError

from app.web.jobs.plain_request import read_plain
from app.web.jobs.request_schemas import NewJobSchema
from tests.cases import choice_of

NOW = {"endpoint": "mail", "trigger": "IMMEDIATE", "idempotency_key": "key-1", "input": {"user": {"id": 7}}}
LATER = NOW | {"trigger": "DELAYED", "run_at": "2030-01-31T10:00:00+01:00"}
SOON = NOW | {"trigger": "DELAYED", "delay": "10m"}
DAILY = {"endpoint": "mail", "trigger": "CRON", "cron": "0 9 * * *", "timezone": "UTC"}
BODIES: list[dict[str, Any]] = [NOW, LATER, SOON, DAILY, {}, {"endpoint": "mail", "trigger": "IMMEDIATE"}]

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 1.5, 10**38, "", " ", "a", "é", [], [1], {}, {"a": 1}, {"a": []}),
    *("m" * 127, "m" * 128, "m" * 129, "k" * 255, "k" * 256),
    *("IMMEDIATE", "DELAYED", "CRON", "INTERVAL", "immediate", "Trigger.IMMEDIATE", "IMMEDIATE "),
    *("2030-01-31T09:00:00Z", "2030-01-31t09:00:00.123456789z", "2030-01-31T09:00:00", "2030-02-30T00:00:00Z"),
    *("1969-12-31T23:59:59Z", "2200-01-01T00:00:00Z", "2030-01-31", "٢030-01-31T09:00:00Z", "now"),
    *(255, 256, "bulk-2", "Bulk", "bulk.DQ", "q" * 63, "q" * 64, "bulk\n"),
    *("5m", "10s", "PT10M", "P1DT1H1M1S", "P", "PT", "P1M", "-1s", "3650d", "3651d", 315_360_000_001),
    *("all", "skip", {"team": "mail"}, {"team": 7}),
]
# A body with `url` is converted first: see tests/integration/jobs/test_inline.py.
NAMES = [*(NewJobSchema().fields.keys() - {"url"}), "unknown", "Endpoint", ""]


def mutated(body: dict[str, Any]) -> Iterator[Any]:
    """Set each field to each value, remove each field, and combine both for pairs of fields."""
    yield body
    for name in NAMES:
        yield {key: value for key, value in body.items() if key != name}
        for value in VALUES:
            yield body | {name: value}
    for first, second in itertools.permutations(("run_at", "delay", "trigger", "input", "idempotency_key"), 2):
        for value in VALUES:
            yield {key: given for key, given in body.items() if key != first} | {second: value}
            yield body | {first: None, second: value}


def outcome(load: Any, body: Any) -> tuple[str, Any]:
    """Return the loaded body, or the errors of the body."""
    try:
        return "loaded", load(copy.deepcopy(body))
    except ValidationError as error:
        return "refused", error.messages


@pytest.mark.sampled
@pytest.mark.parametrize("body", BODIES, ids=["now", "later", "soon", "daily", "empty", "no key"])
def test_mutated_body_is_read_as_the_schema_reads_it(body: dict[str, Any]) -> None:
    schema = NewJobSchema()
    for each in choice_of(list(mutated(body)), 4):
        assert outcome(schema.load, each) == outcome(lambda given: Schema.load(schema, given), each), each


@pytest.mark.parametrize("body", [None, 7, "text", [], [NOW], True])
def test_body_that_is_no_object_is_left_to_the_schema(body: Any) -> None:
    schema = NewJobSchema()
    assert outcome(schema.load, body) == outcome(lambda given: Schema.load(schema, given), body)


@pytest.mark.parametrize("body", [NOW, LATER, SOON, {"endpoint": "mail", "trigger": "IMMEDIATE"}])
def test_usual_body_is_plain(body: dict[str, Any]) -> None:
    assert read_plain(body) is not None


def test_body_is_not_changed() -> None:
    body = copy.deepcopy(LATER)
    read_plain(body)
    assert body == LATER
