"""Change plan: the changes that make the stored definitions equal to a document, by the functions of the API."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from graphlib import TopologicalSorter
from typing import Any

from werkzeug.datastructures import ETags

from app.catalog.check_spec import check_retry_policy, check_spec
from app.catalog.endpoints import versions
from app.catalog.named_table import CONFIGS, PAYLOAD_SPECS, Named, NamedTable
from app.catalog.retry_policy import RetryPolicy
from app.catalog.routing import endpoint_queues
from app.catalog.routing.routes import Route
from app.cli.command_session import actor
from app.cli.exit_statuses import CommandError
from app.features.catalog_files.callback_order import in_order
from app.features.catalog_files.document import Document, StoredCatalog, dumped, written
from app.kernel.audit.change import AuditedChange, Condition
from app.kernel.db import Database
from app.kernel.errors import TaskExecutorError
from app.web.catalog.endpoints_api import ChangedEndpointSchema, definition_of, flow_of
from app.web.services import services, wake
from schema.states import EndpointType, RouteSource

Apply = Callable[[Database], object]


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """One change: action, resource, values before and after, and the function that applies it."""

    action: str
    kind: str
    name: str
    before: Any
    after: Any
    apply: Apply

    def difference(self) -> list[str]:
        """Return the changed lines."""
        old, new = (dumped(value).splitlines() if value is not None else [] for value in (self.before, self.after))
        return [line for line in difflib.unified_diff(old, new, lineterm="", n=2) if line[:3] not in {"---", "+++"}]


def missing_secrets(document: Document, stored: StoredCatalog) -> list[str]:
    """Return the secrets that the document names and that are not stored."""
    return sorted({*document.secrets} - {*stored.secrets})


def steps(document: Document, stored: StoredCatalog, *, delete: bool) -> list[CatalogChange]:
    """Return the changes in an order in which every reference exists; an equal definition has none."""
    changes = [
        *_of_table("payload spec", document.payload_specs, stored.payload_specs, PAYLOAD_SPECS),
        *_of_table("config", document.configs, stored.configs, CONFIGS),
        *_of_endpoints(document, stored, delete=delete),
        *_of_routes(document, stored),
    ]
    for section in services().catalog_sections:
        wanted = document.sections.get(section.key, {})
        changes += _of_table(section.table.noun, wanted, stored.sections[section.key], section)
    return [*changes, *_deletions(document, stored)] if delete else changes


def check_endpoints(document: Document, stored: StoredCatalog) -> None:
    """Check all endpoints and sections of a document with their references, before any change.

    Raises CommandError for the first fault.
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
    _check_sections(document, stored)


def _check_sections(document: Document, stored: StoredCatalog) -> None:
    endpoints = {*document.endpoints, *stored.endpoints}
    for section in services().catalog_sections:
        for name, value in document.sections.get(section.key, {}).items():
            try:
                section.check(name, value, endpoints)
            except TaskExecutorError as error:
                raise CommandError(f"/{section.key}/{name}: {error.message}") from None


def _of_table(
    kind: str,
    wanted: Mapping[str, Any],
    stored: Mapping[str, Named],
    table: Any,
) -> Iterator[CatalogChange]:
    for name, value in wanted.items():
        now = stored.get(name)
        if now is None:
            yield CatalogChange("create", kind, name, None, value, partial(_change, table.create, name, value, None))
        elif now.value != value:
            yield CatalogChange(
                "change", kind, name, now.value, value, partial(_change, table.replace, name, value, now.tag)
            )


def _of_endpoints(document: Document, stored: StoredCatalog, *, delete: bool) -> Iterator[CatalogChange]:
    now_called, called = (
        {name: set(_called_back(each).values()) for name, each in endpoints.items()}
        for endpoints in ({name: written(each) for name, each in stored.endpoints.items()}, document.endpoints)
    )
    for name in in_order(now_called, called, now_called.keys() - called.keys() if delete else ()):
        wanted, endpoint = document.endpoints[name], stored.endpoints.get(name)
        if endpoint is None:
            yield CatalogChange(
                "create", "endpoint", name, None, wanted, partial(_endpoint, versions.create, name, wanted, None)
            )
            continue
        now = written(endpoint)
        if _comparable(now) != _comparable(wanted):
            apply = partial(_endpoint, versions.replace, name, wanted, endpoint.tag)
            yield CatalogChange("change", "endpoint", name, now, wanted, apply)


def _called_back(endpoint: Mapping[str, Any]) -> dict[str, str]:
    return {event: name for event, name in (endpoint.get("callbacks") or {}).items() if name is not None}


def _of_routes(document: Document, stored: StoredCatalog) -> Iterator[CatalogChange]:
    now = stored.document().routes
    if document.routes is not None and document.routes != (now or []):
        apply = partial(_routes, document.routes, stored.routing.tag)
        yield CatalogChange("change", "routes", "", now, document.routes, apply)


def _deletions(document: Document, stored: StoredCatalog) -> Iterator[CatalogChange]:
    # Sections name endpoints.
    for section in services().catalog_sections:
        if section.key in document.sections:
            there, wanted = stored.sections[section.key], document.sections[section.key]
            yield from _deletions_of(section.table.noun, section.table, there, wanted)
    gone = sorted(stored.endpoints.keys() - document.endpoints.keys())
    # Callers go before the endpoints that they call back.
    named = {name: set(_called_back(written(stored.endpoints[name])).values()) for name in gone}
    for name in reversed([name for name in TopologicalSorter(named).static_order() if name in named]):
        now = stored.endpoints[name]
        yield CatalogChange(
            "delete", "endpoint", name, written(now), None, partial(_delete, versions.delete, name, now.tag)
        )
    for kind, table, stored_values, wanted_values in (
        ("config", CONFIGS, stored.configs, document.configs),
        ("payload spec", PAYLOAD_SPECS, stored.payload_specs, document.payload_specs),
    ):
        yield from _deletions_of(kind, table, stored_values, wanted_values)


def _deletions_of(
    kind: str, table: NamedTable, there: Mapping[str, Named], wanted: Mapping[str, Any]
) -> Iterator[CatalogChange]:
    for name in sorted(there.keys() - wanted.keys()):
        apply = partial(_delete, table.delete, name, there[name].tag)
        yield CatalogChange("delete", kind, name, there[name].value, None, apply)


def _comparable(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    # A retry policy with its defaults written out is the same policy.
    policy = RetryPolicy.from_json(endpoint.get("retry_policy")).as_json()
    return {**endpoint, "retry_policy": policy, "callbacks": _called_back(endpoint)}


def _audited(tag: str | None) -> AuditedChange:
    """Return a change on condition of the state that the plan was made from: no change in between is lost."""
    return AuditedChange(actor(), Condition(match=ETags([tag.strip('"')])) if tag else Condition())


def _change(make: Callable[..., object], name: str, value: Any, tag: str | None, database: Database) -> None:
    make(database, name, value, _audited(tag))


def _endpoint(
    make: Callable[..., Any], name: str, wanted: Mapping[str, Any], tag: str | None, database: Database
) -> None:
    body = ChangedEndpointSchema().load(dict(wanted))
    # A field left out of the document gets its default: the same document always gives the same endpoint.
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
