"""Document: all definitions without the values of secrets, read from the database and from YAML."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import yaml
from marshmallow import Schema, ValidationError, fields, validate

from app.catalog import routing
from app.catalog.endpoints import versions
from app.catalog.endpoints.endpoint_rows import Endpoint
from app.catalog.endpoints.live_settings_fields import DEFAULT_PRIORITY
from app.catalog.named_table import CONFIGS, PAYLOAD_SPECS, SECRETS, NamedRow
from app.catalog.routing import Routing
from app.cli.catalog_section import CatalogSection
from app.cli.commands import CommandError
from app.cli.options import gather
from app.kernel.config import MAX_ROUTES
from app.kernel.db import Database
from app.kernel.db.paging import ReadPage
from app.kernel.errors import InvalidRequestError, TaskExecutorError
from app.kernel.formats import marshmallow_faults, pointer
from app.web.catalog.endpoints_api import ChangedEndpointSchema, RouteSchema
from app.web.http.body import parse_json
from app.web.http.request_fields import Body, Name, SecretName
from app.web.services import services
from schema.states import KeepResponse, RouteSource

T = TypeVar("T", NamedRow, Endpoint)
LIVE_SETTINGS = ("queue", "priority", "limits", "breaker", "result_retention")
MAX_DEFINITIONS = 100_000  # of each kind
_MAX_FAULTS = 20
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_OPTIONAL = ("payload_spec", "config", "retry_policy", "keep_response", "callbacks")
# Defaults of an endpoint.
_DEFAULTS = dict.fromkeys((*_OPTIONAL, *LIVE_SETTINGS)) | {
    "keep_response": KeepResponse.ALWAYS,
    "priority": DEFAULT_PRIORITY,
}


class _DocumentSchema(Body):
    payload_specs = fields.Dict(keys=Name(), values=fields.Raw(allow_none=True), load_default=dict)
    configs = fields.Dict(keys=Name(), values=fields.Dict(), load_default=dict)
    secrets = fields.List(SecretName(), load_default=list)
    endpoints = fields.Dict(keys=Name(), values=fields.Nested(ChangedEndpointSchema), load_default=dict)
    routes = fields.List(fields.Nested(RouteSchema), validate=validate.Length(max=MAX_ROUTES))


@dataclass(frozen=True, slots=True)
class Document:
    """Definitions in JSON: schemas, configs and endpoints by their names, names of secrets, routes, feature sections.

    Endpoints leave out fields with their default. Without routes, or a section, the document leaves them as stored.
    """

    payload_specs: Mapping[str, Any] = field(default_factory=dict)
    configs: Mapping[str, Any] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    endpoints: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    routes: list[dict[str, str]] | None = None
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the definitions in the order in which they are applied."""
        names = ("payload_specs", "configs", "secrets", "endpoints", "routes")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None} | {**self.sections}


@dataclass(frozen=True, slots=True)
class StoredCatalog:
    """Stored definitions with their entity tags."""

    payload_specs: Mapping[str, NamedRow]
    configs: Mapping[str, NamedRow]
    secrets: list[str]
    endpoints: Mapping[str, NamedRow]
    routing: Routing
    sections: Mapping[str, Mapping[str, NamedRow]]

    @classmethod
    def read(cls, database: Database) -> "StoredCatalog":
        """Read all definitions; no secret is decrypted or leaves the database."""
        return cls(
            _named(partial(PAYLOAD_SPECS.page, database)),
            _named(partial(CONFIGS.page, database)),
            sorted(_named(partial(SECRETS.page, database))),
            {name: _written(each) for name, each in _named(partial(versions.page, database)).items()},
            routing.load(database),
            {each.key: _named(partial(each.table.page, database)) for each in services().catalog_sections},
        )

    def document(self) -> Document:
        """Return the definitions as a document, without routes of TE_ROUTES."""
        routes = [{"pattern": route.pattern, "queue": route.queue} for route in self.routing.routes]
        return Document(
            {name: each.value for name, each in self.payload_specs.items()},
            {name: each.value for name, each in self.configs.items()},
            self.secrets,
            {name: each.value for name, each in self.endpoints.items()},
            routes if self.routing.source is RouteSource.API else None,
            {key: {name: each.value for name, each in found.items()} for key, found in self.sections.items() if found},
        )


def without_defaults(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an endpoint that differ from their default."""
    return {key: value for key, value in endpoint.items() if key not in _DEFAULTS or value != _DEFAULTS[key]}


def dumped(value: object) -> str:
    plain = json.loads(json.dumps(value))
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120, default_flow_style=False))


def parsed(text: str, where: str) -> Document:
    """Read a document; raises CommandError with the fault and its place."""
    sections = services().catalog_sections
    try:
        value = parse_json(json.dumps(yaml.load(text, Loader=_Loader)), has_places=False)  # noqa: S506 - a SafeLoader
        if value is None:
            # A truncated file may be empty: with --delete it would delete everything.
            raise CommandError(f"{where} is empty; write {{}} for no definitions at all")
        loaded = _schema(sections)().load(value)
    except yaml.YAMLError as error:
        raise CommandError(f"{where} is not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise CommandError(f"{where} is nested too deep") from None
    except (TypeError, ValueError, InvalidRequestError) as error:
        fault = str(error).replace("The body", "it", 1)
        raise CommandError(f"{where} has a value that JSON does not know: {fault}") from None
    except ValidationError as error:
        faults = [f"{pointer(_plain(path)) or '/'}: {fault}" for path, fault in marshmallow_faults(error.messages)]
        raise CommandError(f"{where} is not a valid document: {'; '.join(faults[:_MAX_FAULTS])}") from None
    _check_schemas(loaded["payload_specs"], where)
    endpoints = {name: without_defaults(each) for name, each in value.get("endpoints", {}).items()}
    for each in endpoints.values():
        each.pop("name", None)  # an entry may repeat its name
    added = {
        section.key: {name: section.stored_value(each) for name, each in loaded[section.key].items()}
        for section in sections
        if section.key in loaded
    }
    kinds = (loaded["payload_specs"], loaded["configs"], loaded["secrets"], endpoints)
    return Document(*kinds, value.get("routes"), added)


def _check_schemas(schemas: Mapping[str, Any], where: str) -> None:
    from app.catalog.json_schema import check_schema  # noqa: PLC0415 - 30 modules that few commands need

    for name, schema in schemas.items():
        try:
            check_schema(schema)
        except TaskExecutorError as error:
            raise CommandError(f"{where}: /payload_specs/{name}: {error.message}") from None


def _schema(sections: Iterable[CatalogSection]) -> type[Schema]:
    return _DocumentSchema.from_dict(
        {each.key: fields.Dict(keys=Name(), values=fields.Nested(each.schema)) for each in sections}
    )


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without dates, which JSON does not have, and without duplicate keys."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML declares it of the class
        first: [pair for pair in pairs if pair[0] != _TIMESTAMP]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set[str]()
        for node_of_key, _ in node.value:
            key = self.construct_object(node_of_key, deep=True)
            # In JSON the keys 1 and "1" are the same.
            key = key if isinstance(key, str) else json.dumps(key)
            if key in seen:
                fault = f"duplicate key {key!r}"
                raise yaml.constructor.ConstructorError(None, None, fault, node_of_key.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _named(read_page: ReadPage[T]) -> dict[str, T]:
    found, is_more = gather(read_page, MAX_DEFINITIONS)
    if is_more:
        raise CommandError(f"more than {MAX_DEFINITIONS:,} definitions of one kind do not fit into a document")
    return {each.name: each for each in sorted(found, key=attrgetter("name"))}


def _written(endpoint: Endpoint) -> NamedRow:
    """Return the fields of an endpoint that differ from their default, as a named value."""
    definition = {name: getattr(endpoint, name) for name in ("type", "spec", *_OPTIONAL)}
    value = without_defaults(definition | {name: getattr(endpoint, name) for name in LIVE_SETTINGS})
    return NamedRow(endpoint.name, value, endpoint.tag, endpoint.created_at, endpoint.updated_at)


def _plain(path: tuple[str, ...]) -> list[str]:
    # marshmallow puts "key" or "value" between the name of an entry and its fault.
    return [part for number, part in enumerate(path) if number != 2 or part not in {"key", "value"}]
