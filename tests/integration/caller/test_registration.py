"""Endpoints declared in code: registered once, changed as a new version, never over a concurrent change."""

from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

import pytest
from task_executor_client import RegistrationConflictError, errors
from task_executor_client.call import Call
from task_executor_client.drive import drive

from tests.integration.caller.conftest import Connect
from tests.integration.caller.serving import FaultyNetwork
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
    asked: int = field(default=0, init=False)


@dataclass
class Order:
    refunds: list[Refund]


def plain_welcome(user_id: str) -> None: ...


def actions(changes: list[Any]) -> list[str]:
    return [change.action for change in changes]


def test_declared_endpoint_is_registered_once_and_changed_as_a_new_version(
    connect: Connect, network: FaultyNetwork, name: str
) -> None:
    te = connect()

    @te.endpoint(name=name, spec=SPEC, retry_policy={"max_attempts": 3})
    def welcome(user_id: str, count: int = 1) -> str:
        return user_id * count

    assert welcome("a", count=2) == "aa"
    assert actions(te.register(dry_run=True)) == ["create", "create"]
    with pytest.raises(errors.EndpointNotFoundError):
        te.endpoints.get(name)
    assert [change.version_after for change in te.register()] == [None, 1]
    network.clear()
    assert actions(te.register()) == ["none", "none"]
    assert {each["method"] for each in network.requests} == {"GET"}
    job = te.jobs.create(endpoint=name, trigger="IMMEDIATE", input=welcome.input("u_1"))
    assert job["input"] == {"user_id": "u_1"}
    with pytest.raises(errors.InputValidationFailedError):
        te.jobs.create(endpoint=name, trigger="IMMEDIATE", input={"user": "u_1"})

    again = connect()
    again.endpoint(name=name, spec=SPEC | {"method": "PUT"})(welcome.function)
    (spec, change) = again.register()
    assert (spec.action, change.fields) == ("none", ("retry_policy", "spec"))
    assert (change.version_before, change.version_after) == (1, 2)


def test_conflicting_declaration_raises_an_error(connect: Connect, name: str) -> None:
    te = connect()
    te.endpoints.create(**http_endpoint(name))

    @te.endpoint(name=name, type="KAFKA", spec={"bootstrap_servers": "a:1", "topic": "t"})
    def welcome(user_id: str) -> None: ...

    with pytest.raises(RegistrationConflictError, match="has type HTTP"):
        te.register()
    with pytest.raises(ValueError, match="declared twice"):
        te.endpoint(name=name, spec=SPEC)(welcome.function)
    with pytest.raises(TypeError, match="needs a name and a type"):
        te.endpoint(spec=SPEC)(lambda user: None)


def test_concurrent_registrations_of_one_declaration_succeed(connect: Connect, name: str) -> None:
    """All processes of an application register at their start; a process that finds the same definition succeeds."""
    clients = [connect() for _ in range(2)]
    for te in clients:
        te.endpoint(name=name, spec=SPEC)(plain_welcome)
    first, second = clients
    changes_of_second: list[Any] = []

    def send(call: Call) -> Any:
        if call.method != "GET" and not changes_of_second:
            changes_of_second.extend(second.register())
        return first.request(call)

    changes = drive(first._declared.register(dry_run=False), send)  # noqa: SLF001 - the test sends each call itself
    assert actions(changes_of_second) == ["create", "create"]
    assert actions(changes) == ["none", "none"]

    first, second = connect(), connect()
    first.endpoint(name=name, spec=SPEC | {"method": "PUT"})(plain_welcome)
    second.endpoint(name=name, spec=SPEC | {"method": "PATCH"})(plain_welcome)
    changes_of_second.clear()
    with pytest.raises(RegistrationConflictError, match="another client changed the definition"):
        drive(first._declared.register(dry_run=False), send)  # noqa: SLF001
    assert te.endpoints.get(name)["spec"]["method"] == "PATCH"


def test_equivalent_values_are_no_change_and_absent_callbacks_are_removed(connect: Connect, name: str) -> None:
    te = connect()
    te.endpoints.create(**http_endpoint(f"{name}-hook"))
    fields: dict[str, Any] = {
        "callbacks": {"on_failure": f"{name}-hook"},
        "result_retention": "48h",
        "limits": {"max_in_flight": 5},
        "retry_policy": {"max_attempts": 3, "fail_on": [401]},
    }
    te.endpoint(name=name, spec=SPEC, **fields)(plain_welcome)
    assert actions(te.register()) == ["create"] * 2
    assert actions(te.register()) == ["none"] * 2
    without = connect()
    without.endpoint(name=name, spec=SPEC, retry_policy=fields["retry_policy"])(plain_welcome)
    assert without.register(dry_run=True)[1].fields == ("callbacks",)
    without.register()
    found = te.endpoints.get(name)
    assert (found["callbacks"], found["result_retention"], found["limits"]) == (None, "2d", {"max_in_flight": 5})


def test_types_of_a_function_become_a_schema(connect: Connect, name: str) -> None:
    te = connect()

    @te.endpoint(name=f"{name}-a", spec=SPEC)
    def first(body: Welcome) -> None: ...

    @te.endpoint(name=f"{name}-b", spec=SPEC)
    def second(body: Refund) -> None: ...

    @te.endpoint(name=f"{name}-c", spec=SPEC)
    def third(order: Order, refund: Refund, number: int = 1) -> None: ...

    te.register()
    given = third.input(Order([Refund(1, "late")]), Refund(2, "late"))
    te.jobs.create(endpoint=f"{name}-c", trigger="IMMEDIATE", input=given)
    assert given["order"] == {"refunds": [{"order": 1, "reason": "late", "note": None}]}
    assert te.payload_specs.get(f"{name}-a")["schema"]["required"] == ["user_id"]
    assert second.input(Refund(1, "late")) == {"order": 1, "reason": "late", "note": None}
    te.jobs.create(endpoint=f"{name}-b", trigger="IMMEDIATE", input=second.input(Refund(1, "late")))
    te.jobs.create(endpoint=f"{name}-a", trigger="IMMEDIATE", input=first.input({"user_id": "a", "tags": []}))
    with pytest.raises(errors.InputValidationFailedError):
        te.jobs.create(endpoint=f"{name}-b", trigger="IMMEDIATE", input={"order": 1, "reason": "other"})
