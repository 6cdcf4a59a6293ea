"""Endpoints declared in code: registered once, changed as a new version, never over somebody else's change."""

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import pytest
from task_executor_client import RegistrationConflictError, errors

from tests.integration.caller.conftest import Connect
from tests.integration.caller.serving import Weather
from tests.integration.registered import http_endpoint

SPEC = {"url": "http://127.0.0.1:9/hook"}


class Welcome(TypedDict):
    user_id: str
    tags: NotRequired[list[str]]


@dataclass
class Refund:
    order: int
    reason: Literal["late", "broken"]
    note: str | None = None


def actions(changes: list[Any]) -> list[str]:
    return [change.action for change in changes]


def test_it_is_registered_once_and_changed_as_a_new_version(connect: Connect, weather: Weather, name: str) -> None:
    te = connect()

    @te.endpoint(name=name, spec=SPEC, retry_policy={"max_attempts": 3})
    def welcome(user_id: str, count: int = 1) -> str:
        return user_id * count

    assert welcome("a", count=2) == "aa"
    assert actions(te.register(dry_run=True)) == ["create", "create"]
    with pytest.raises(errors.EndpointNotFoundError):
        te.endpoints.get(name)
    assert [change.version_after for change in te.register()] == [None, 1]
    weather.clear()
    assert actions(te.register()) == ["none", "none"]
    assert {each["method"] for each in weather.seen} == {"GET"}
    job = te.jobs.create(endpoint=name, trigger="IMMEDIATE", input=welcome.input("u_1"))
    assert job["input"] == {"user_id": "u_1"}
    with pytest.raises(errors.InputValidationFailedError):
        te.jobs.create(endpoint=name, trigger="IMMEDIATE", input={"user": "u_1"})

    again = connect()
    again.endpoint(name=name, spec=SPEC | {"method": "PUT"})(welcome.function)
    (spec, change) = again.register()
    assert (spec.action, change.fields) == ("none", ("retry_policy", "spec"))
    assert (change.version_before, change.version_after) == (1, 2)


def test_a_conflict_is_told(connect: Connect, name: str) -> None:
    te = connect()
    te.endpoints.create(**http_endpoint(name))

    @te.endpoint(name=name, type="KAFKA", spec={"bootstrap_servers": "a:1", "topic": "t"})
    def welcome(user_id: str) -> None: ...

    with pytest.raises(RegistrationConflictError, match="type HTTP already"):
        te.register()
    with pytest.raises(ValueError, match="declared twice"):
        te.endpoint(name=name, spec=SPEC)(welcome.function)
    with pytest.raises(TypeError, match="needs a name and a type"):
        te.endpoint(spec=SPEC)(lambda user: None)


def test_schemas_of_types(connect: Connect, name: str) -> None:
    te = connect()

    @te.endpoint(name=f"{name}-a", spec=SPEC)
    def first(body: Welcome) -> None: ...

    @te.endpoint(name=f"{name}-b", spec=SPEC)
    def second(body: Refund) -> None: ...

    te.register()
    assert te.payload_specs.get(f"{name}-a")["schema"]["required"] == ["user_id"]
    assert second.input(Refund(1, "late")) == {"order": 1, "reason": "late", "note": None}
    te.jobs.create(endpoint=f"{name}-b", trigger="IMMEDIATE", input=second.input(Refund(1, "late")))
    te.jobs.create(endpoint=f"{name}-a", trigger="IMMEDIATE", input=first.input({"user_id": "a", "tags": []}))
    with pytest.raises(errors.InputValidationFailedError):
        te.jobs.create(endpoint=f"{name}-b", trigger="IMMEDIATE", input={"order": 1, "reason": "other"})
