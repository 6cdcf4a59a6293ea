"""The plan: the changes that make the stored catalogue that of a document, each made by what the API calls."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from graphlib import TopologicalSorter
from typing import Any

from werkzeug.datastructures import ETags

from app.catalog import payload_specs
from app.catalog.check_spec import check_retry_policy, check_spec
from app.catalog.configs import CONFIGS
from app.catalog.endpoints import versions
from app.catalog.named_table import Named, NamedTable
from app.catalog.payload_specs import PAYLOAD_SPECS
from app.catalog.retry_policy import RetryPolicy
from app.catalog.routing import endpoint_queues
from app.catalog.routing.routes import Route
from app.cli.command_session import actor
from app.cli.exit_statuses import CommandError
from app.features.catalog_files.callback_order import in_order
from app.features.catalog_files.document import Document, Stored, dumped, written
from app.features.notifications import store as notifications_store
from app.features.notifications.store import RULES
from app.kernel.audit.change import AuditedChange, Condition
from app.kernel.db import Database
from app.kernel.errors import TaskExecutorError
from app.web.catalog.endpoints_api import ChangedEndpointSchema, definition_of, flow_of
from app.web.services import services, wake
from schema.states import EndpointType, RouteSource

Apply = Callable[[Database], object]


@dataclass(frozen=True, slots=True)
class Step:
    """One change: what is done to which resource, the values before and after, and the function that does it."""

    action: str
    kind: str
    name: str
    before: Any
    after: Any
    apply: Apply

    def difference(self) -> list[str]:
        """Return the lines that change."""
        old, new = (dumped(value).splitlines() if value is not None else [] for value in (self.before, self.after))
        return [line for line in difflib.unified_diff(old, new, lineterm="", n=2) if line[:3] not in {"---", "+++"}]


def missing_secrets(document: Document, stored: Stored) -> list[str]:
    """Return the secrets that the document names and nobody has stored; their values are no part of it."""
    return sorted({*document.secrets} - {*stored.secrets})


def steps(document: Document, stored: Stored, *, delete: bool) -> list[Step]:
    """Plan the changes, in an order in which all that is referred to is there; what is as it should be has none."""
    changes = [
        *_of_table("payload spec", document.payload_specs, stored.payload_specs, payload_specs),
        *_of_table("config", document.configs, stored.configs, CONFIGS),
        *_of_endpoints(document, stored, delete=delete),
        *_of_routes(document, stored),
        *_of_table(
            "notification rule", document.notification_rules or {}, stored.notification_rules, notifications_store
        ),
    ]
    return [*changes, *_deletions(document, stored)] if delete else changes


def check_endpoints(document: Document, stored: Stored) -> None:
    """Check all endpoints and rules of a document together with what they refer to, before anything is changed.

    Raises CommandError with the first that is wrong.
    """
    now = stored.document()
    configs, schemas = {**now.configs, **document.configs}, {**now.payload_specs, **document.payload_specs}
    secrets = {*stored.secrets, *document.secrets}
    for name, endpoint in document.endpoints.items():
        for field, there in (("config", configs), ("payload_spec", schemas)):
            if endpoint.get(field) is not None and endpoint[field] not in there:
                raise CommandError(f"/endpoints/{name}/{field}: there is no {field} named {endpoint[field]!r}")
        for event, called in _called_back(endpoint).items():
            if called not in {*document.endpoints, *stored.endpoints}:
                raise CommandError(f"/endpoints/{name}/callbacks/{event}: there is no endpoint named {called!r}")
        try:
            check_retry_policy(endpoint.get("retry_policy"))
            check_spec(
                EndpointType(endpoint["type"]),
                endpoint["spec"],
                config=configs.get(endpoint.get("config") or ""),
                secret_names_exist=lambda names: {*names} & secrets,
                payload_schema=schemas.get(endpoint.get("payload_spec") or ""),
                stuck_timeout_ms=_stuck_timeout_ms(),
            )
        except TaskExecutorError as error:
            where = error.details[0]["pointer"] if error.details else ""
            fault = error.message.removeprefix(f"{where}: ")
            raise CommandError(f"/endpoints/{name}{where}: {fault}") from None
    _check_rules(document, stored)


def _check_rules(document: Document, stored: Stored) -> None:
    for name, rule in (document.notification_rules or {}).items():
        for place, channel in enumerate(rule["channels"]):
            if channel not in {*document.endpoints, *stored.endpoints}:
                where = f"/notification_rules/{name}/channels/{place}"
                raise CommandError(f"{where}: there is no endpoint named {channel!r}")
        try:
            notifications_store.check(name, rule)
        except TaskExecutorError as error:
            raise CommandError(f"/notification_rules/{name}: {error.message}") from None


def _of_table(
    kind: str,
    wanted: Mapping[str, Any],
    stored: Mapping[str, Named],
    table: Any,
) -> Iterator[Step]:
    for name, value in wanted.items():
        now = stored.get(name)
        if now is None:
            yield Step("create", kind, name, None, value, partial(_change, table.create, name, value, None))
        elif now.value != value:
            yield Step("change", kind, name, now.value, value, partial(_change, table.replace, name, value, now.tag))


def _of_endpoints(document: Document, stored: Stored, *, delete: bool) -> Iterator[Step]:
    now_called, called = (
        {name: set(_called_back(each).values()) for name, each in endpoints.items()}
        for endpoints in ({name: written(each) for name, each in stored.endpoints.items()}, document.endpoints)
    )
    for name in in_order(now_called, called, now_called.keys() - called.keys() if delete else ()):
        wanted, endpoint = document.endpoints[name], stored.endpoints.get(name)
        if endpoint is None:
            yield Step(
                "create", "endpoint", name, None, wanted, partial(_endpoint, versions.create, name, wanted, None)
            )
            continue
        now = written(endpoint)
        if _comparable(now) != _comparable(wanted):
            apply = partial(_endpoint, versions.replace, name, wanted, endpoint.tag)
            yield Step("change", "endpoint", name, now, wanted, apply)


def _called_back(endpoint: Mapping[str, Any]) -> dict[str, str]:
    return {event: name for event, name in (endpoint.get("callbacks") or {}).items() if name is not None}


def _of_routes(document: Document, stored: Stored) -> Iterator[Step]:
    now = stored.document().routes
    if document.routes is not None and document.routes != (now or []):
        apply = partial(_routes, document.routes, stored.routing.tag)
        yield Step("change", "routes", "", now, document.routes, apply)


def _deletions(document: Document, stored: Stored) -> Iterator[Step]:
    # They name endpoints.
    if document.notification_rules is not None:
        yield from _deletions_of("notification rule", RULES, stored.notification_rules, document.notification_rules)
    gone = sorted(stored.endpoints.keys() - document.endpoints.keys())
    # Those that call others back go before these.
    named = {name: set(_called_back(written(stored.endpoints[name])).values()) for name in gone}
    for name in reversed([name for name in TopologicalSorter(named).static_order() if name in named]):
        now = stored.endpoints[name]
        yield Step("delete", "endpoint", name, written(now), None, partial(_delete, versions.delete, name, now.tag))
    for kind, table, there, wanted in (
        ("config", CONFIGS, stored.configs, document.configs),
        ("payload spec", PAYLOAD_SPECS, stored.payload_specs, document.payload_specs),
    ):
        yield from _deletions_of(kind, table, there, wanted)


def _deletions_of(
    kind: str, table: NamedTable, there: Mapping[str, Named], wanted: Mapping[str, Any]
) -> Iterator[Step]:
    for name in sorted(there.keys() - wanted.keys()):
        apply = partial(_delete, table.delete, name, there[name].tag)
        yield Step("delete", kind, name, there[name].value, None, apply)


def _comparable(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    # A retry policy that spells its defaults out is the same one.
    policy = RetryPolicy.from_json(endpoint.get("retry_policy")).as_json()
    return {**endpoint, "retry_policy": policy, "callbacks": _called_back(endpoint)}


def _audited(tag: str | None) -> AuditedChange:
    """Return the change of a state that the plan has seen, so that nobody's change in between is lost."""
    return AuditedChange(actor(), Condition(match=ETags([tag.strip('"')])) if tag else Condition())


def _change(make: Callable[..., object], name: str, value: Any, tag: str | None, database: Database) -> None:
    make(database, name, value, _audited(tag))


def _endpoint(
    make: Callable[..., Any], name: str, wanted: Mapping[str, Any], tag: str | None, database: Database
) -> None:
    body = ChangedEndpointSchema().load(dict(wanted))
    # What the document leaves out has its default: twice the same document is twice the same endpoint.
    flow = dict.fromkeys(("queue", "priority", "limits", "breaker", "result_retention")) | flow_of(body)
    definition = definition_of(body)
    endpoint = make(database, name, definition, _audited(tag), stuck_timeout_ms=_stuck_timeout_ms(), flow=flow)
    wake(endpoint.queue_in_effect)


def _stuck_timeout_ms() -> int:
    return round(services().settings.stuck_timeout_seconds * 1000)


def _routes(wanted: list[dict[str, str]], tag: str, database: Database) -> None:
    routes = [Route(**route) for route in wanted]
    endpoint_queues.change_routes(database, routes, RouteSource.API, _audited(tag))


def _delete(delete: Callable[..., object], name: str, tag: str, database: Database) -> None:
    delete(database, name, _audited(tag))
