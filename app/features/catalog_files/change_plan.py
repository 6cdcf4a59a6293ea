"""Change plan: the changes that make the stored definitions equal to a document, by the functions of the API."""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from app.catalog import routing
from app.catalog.check_spec import check_retry_policy, check_spec
from app.catalog.endpoints import versions
from app.catalog.named_table import CONFIGS, PAYLOAD_SPECS, NamedRow, NamedTable
from app.catalog.retry_policy import RetryPolicy
from app.catalog.routing import Route
from app.catalog.specs.workflow import named_endpoints
from app.cli.commands import CommandError, actor
from app.features.catalog_files.callback_order import in_order
from app.features.catalog_files.document import LIVE_SETTINGS, Document, StoredCatalog, dumped
from app.kernel.audit.change import AuditedChange, Condition, StateTag
from app.kernel.db import Database
from app.kernel.errors import TaskExecutorError
from app.kernel.formats import is_same_json
from app.web.catalog.endpoints_api import ChangedEndpointSchema, definition_of, flow_of
from app.web.services import services, wake
from schema.states import EndpointType, RouteSource


class EndpointTable:
    """Endpoints as named values, in the form that they have in a document."""

    noun = "endpoint"

    def create(self, database: Database, name: str, value: Mapping[str, Any], change: AuditedChange) -> None:
        wake(versions.create(database, name, change=change, **self._parsed(value)).queue_in_effect)

    def replace(self, database: Database, name: str, value: Mapping[str, Any], change: AuditedChange) -> None:
        wake(versions.replace(database, name, change=change, **self._parsed(value)).queue_in_effect)

    def delete(self, database: Database, name: str, change: AuditedChange) -> None:
        versions.delete(database, name, change)

    def _parsed(self, value: Mapping[str, Any]) -> dict[str, Any]:
        body = ChangedEndpointSchema().load(dict(value))
        # A field left out of the document gets its default: the same document always gives the same endpoint.
        flow = dict.fromkeys(LIVE_SETTINGS) | flow_of(body)
        definition, checks = definition_of(body), services().spec_checks
        return {
            "definition": definition,
            "flow": flow,
            "stuck_timeout_ms": _stuck_timeout_ms(),
            "spec_checks": checks,
        }


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """One change: action, resource, values before and after, and the entity tag before; routes have no table."""

    action: str
    kind: str
    name: str
    before: Any
    after: Any
    tag: str | None
    table: NamedTable | EndpointTable | None = None

    def difference(self) -> list[str]:
        """Return the changed lines."""
        old, new = (dumped(value).splitlines() if value is not None else [] for value in (self.before, self.after))
        return [line for line in difflib.unified_diff(old, new, lineterm="", n=2) if line[:3] not in {"---", "+++"}]

    def apply(self, database: Database) -> None:
        """Make the change on condition of the state that the plan was made from: no change in between is lost."""
        condition = Condition(match=StateTag(self.tag) if self.tag else None)
        change = AuditedChange(actor(), condition)
        if self.table is None:
            routes = [Route(**route) for route in self.after]
            routing.change_routes(database, routes, RouteSource.API, change)
        elif self.action == "create":
            self.table.create(database, self.name, self.after, change)
        elif self.action == "change":
            self.table.replace(database, self.name, self.after, change)
        else:
            self.table.delete(database, self.name, change)


def steps(document: Document, stored: StoredCatalog, *, delete: bool) -> list[CatalogChange]:
    """Return the changes, ordered such that every reference exists; an equal definition has no change."""
    sections = [
        (each, stored.sections[each.key]) for each in services().catalog_sections if each.key in document.sections
    ]
    endpoints = _changed_endpoints(document, stored, delete=delete)
    changes = [
        *_changes(PAYLOAD_SPECS, document.payload_specs, stored.payload_specs),
        *_changes(CONFIGS, document.configs, stored.configs),
        *_changes(EndpointTable(), endpoints, stored.endpoints),
    ]
    routes = stored.document().routes
    if document.routes is not None and document.routes != (routes or []):
        changes.append(CatalogChange("change", "routes", "", routes, document.routes, stored.routing.tag))
    for section, there in sections:
        changes += _changes(section.table, document.sections[section.key], there)
    if not delete:
        return changes
    # Sections name endpoints, and callers the endpoints that they call back: deleted before them.
    for section, there in sections:
        changes += _deletions(section.table, there, sorted(there.keys() - document.sections[section.key].keys()))
    gone = sorted(stored.endpoints.keys() - document.endpoints.keys())
    called = {name: _needed(stored.endpoints[name].value) for name in gone}
    callees_first = [name for name in TopologicalSorter(called).static_order() if name in called]
    return [
        *changes,
        *_deletions(EndpointTable(), stored.endpoints, reversed(callees_first)),
        *_deletions(CONFIGS, stored.configs, sorted(stored.configs.keys() - document.configs.keys())),
        *_deletions(
            PAYLOAD_SPECS, stored.payload_specs, sorted(stored.payload_specs.keys() - document.payload_specs.keys())
        ),
    ]


def check(document: Document, stored: StoredCatalog) -> None:
    """Check all endpoints and sections of a document with their references, before any change.

    Raises CommandError for the first fault.
    """
    now = stored.document()
    configs, schemas = {**now.configs, **document.configs}, {**now.payload_specs, **document.payload_specs}
    secrets, names = {*stored.secrets, *document.secrets}, {*stored.endpoints, *document.endpoints}
    for name, endpoint in document.endpoints.items():
        for field, there in (("config", configs), ("payload_spec", schemas)):
            if endpoint.get(field) is not None and endpoint[field] not in there:
                raise CommandError(f"/endpoints/{name}/{field}: there is no {field} named {endpoint[field]!r}")
        for event, called in _called_back(endpoint).items():
            if called not in names:
                raise CommandError(f"/endpoints/{name}/callbacks/{event}: there is no endpoint named {called!r}")
        for named in sorted(_needed(endpoint) - names):
            raise CommandError(f"/endpoints/{name}/spec/nodes: there is no endpoint named {named!r}")
        try:
            check_retry_policy(endpoint.get("retry_policy"))
            check_spec(
                EndpointType(endpoint["type"]),
                endpoint["spec"],
                config=configs.get(endpoint.get("config") or ""),
                secret_names_exist=secrets.intersection,
                payload_schema=schemas.get(endpoint.get("payload_spec") or ""),
                stuck_timeout_ms=_stuck_timeout_ms(),
            )
        except TaskExecutorError as error:
            where, fault = next(((each["pointer"], each["message"]) for each in error.details), ("", error.message))
            raise CommandError(f"/endpoints/{name}{where}: {fault}") from None
    _check_sections(document, names)


def _check_sections(document: Document, endpoints: Collection[str]) -> None:
    for section in services().catalog_sections:
        for name, value in document.sections.get(section.key, {}).items():
            try:
                section.check(name, value, endpoints)
            except TaskExecutorError as error:
                raise CommandError(f"/{section.key}/{name}: {error.message}") from None


def _changes(
    table: NamedTable | EndpointTable, wanted: Mapping[str, Any], stored: Mapping[str, NamedRow]
) -> Iterator[CatalogChange]:
    for name, value in wanted.items():
        now = stored.get(name)
        if now is None:
            yield CatalogChange("create", table.noun, name, None, value, None, table)
        elif not is_same_json(now.value, value):
            yield CatalogChange("change", table.noun, name, now.value, value, now.tag, table)


def _deletions(
    table: NamedTable | EndpointTable, stored: Mapping[str, NamedRow], names: Iterable[str]
) -> Iterator[CatalogChange]:
    for name in names:
        yield CatalogChange("delete", table.noun, name, stored[name].value, None, stored[name].tag, table)


def _changed_endpoints(document: Document, stored: StoredCatalog, *, delete: bool) -> dict[str, dict[str, Any]]:
    """Return the endpoints that differ, ordered such that the API accepts the callbacks of each."""
    now = {name: each.value for name, each in stored.endpoints.items()}
    now_called, called = (
        {name: set(_called_back(each).values()) for name, each in endpoints.items()}
        for endpoints in (now, document.endpoints)
    )
    order = in_order(now_called, called, now_called.keys() - called.keys() if delete else ())
    if any(each["type"] == EndpointType.WORKFLOW for each in document.endpoints.values()):
        needed = {name: _needed(document.endpoints[name]) for name in order}
        order = [name for name in _needed_first(needed) if name in needed]
    wanted = {name: document.endpoints[name] for name in order}
    return {
        name: each
        for name, each in wanted.items()
        if name not in now or not is_same_json(_comparable(now[name]), _comparable(each))
    }


def _needed_first(needed: Mapping[str, Collection[str]]) -> list[str]:
    try:
        return list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        raise CommandError(f"endpoints need each other: {' -> '.join(reversed(error.args[1]))}") from None


def _needed(endpoint: Mapping[str, Any]) -> set[str]:
    """Return the endpoints that an endpoint calls back, or names in the nodes of its workflow."""
    is_workflow = endpoint["type"] == EndpointType.WORKFLOW
    nodes = endpoint["spec"].get("nodes") if is_workflow and isinstance(endpoint["spec"], dict) else None
    return {*_called_back(endpoint).values(), *named_endpoints(nodes)}


def _called_back(endpoint: Mapping[str, Any]) -> dict[str, str]:
    return {event: name for event, name in (endpoint.get("callbacks") or {}).items() if name is not None}


def _comparable(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    # A retry policy with its defaults written out is the same policy.
    policy = RetryPolicy.from_json(endpoint.get("retry_policy")).as_json()
    return {**endpoint, "retry_policy": policy, "callbacks": _called_back(endpoint)}


def _stuck_timeout_ms() -> int:
    return round(services().settings.stuck_timeout_seconds * 1000)
