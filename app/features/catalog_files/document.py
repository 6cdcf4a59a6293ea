"""The document: what the catalogue holds, but for the values of secrets, read from the database and from YAML."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import yaml
from marshmallow import ValidationError, fields, validate

from app.catalog.configs import CONFIGS
from app.catalog.endpoints import versions
from app.catalog.endpoints.endpoint_rows import Endpoint
from app.catalog.endpoints.live_settings_fields import DEFAULT_PRIORITY
from app.catalog.json_schema import check_schema
from app.catalog.named_table import Named
from app.catalog.payload_specs import PAYLOAD_SPECS
from app.catalog.routing import endpoint_queues as routing
from app.catalog.routing.endpoint_queues import Routing
from app.catalog.secrets import SECRETS
from app.cli.exit_statuses import CommandError
from app.cli.options import gather
from app.features.notifications.rules_api import value_of
from app.features.notifications.schemas import ChangedNotificationRuleSchema
from app.features.notifications.store import RULES
from app.features.notifications.store import without_defaults as without_defaults_of_rule
from app.features.queues.routes_api import RouteSchema
from app.kernel.config import MOST_ROUTES
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest
from app.kernel.errors import InvalidRequestError, TaskExecutorError
from app.kernel.formats import marshmallow_faults, pointer
from app.web.catalog.endpoints_api import ChangedEndpointSchema
from app.web.http.body import parse_json
from app.web.http.request_fields import Body, Name, SecretName
from schema.states import KeepResponse, RouteSource

T = TypeVar("T", Named, Endpoint)
MOST = 100_000  # of each kind
_MOST_FAULTS = 20
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
# What an endpoint has when nothing is said of it.
_DEFAULTS = {
    "payload_spec": None,
    "config": None,
    "retry_policy": None,
    "keep_response": KeepResponse.ALWAYS.value,
    "callbacks": None,
    "queue": None,
    "priority": DEFAULT_PRIORITY,
    "limits": None,
    "breaker": None,
    "result_retention": None,
}


class _DocumentSchema(Body):
    payload_specs = fields.Dict(keys=Name(), values=fields.Raw(allow_none=True), load_default=dict)
    configs = fields.Dict(keys=Name(), values=fields.Dict(), load_default=dict)
    secrets = fields.List(SecretName(), load_default=list)
    endpoints = fields.Dict(keys=Name(), values=fields.Nested(ChangedEndpointSchema), load_default=dict)
    routes = fields.List(fields.Nested(RouteSchema), validate=validate.Length(max=MOST_ROUTES))
    notification_rules = fields.Dict(keys=Name(), values=fields.Nested(ChangedNotificationRuleSchema))


@dataclass(frozen=True, slots=True)
class Document:
    """A catalogue in JSON: schemas, values, endpoints and notification rules by their names; secrets' names; routes.

    Endpoints and rules leave out what has its default. Without routes, or rules, the document says nothing about them.
    """

    payload_specs: Mapping[str, Any] = field(default_factory=dict)
    configs: Mapping[str, Any] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    endpoints: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    routes: list[dict[str, str]] | None = None
    notification_rules: Mapping[str, dict[str, Any]] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return what is in it, in the order in which it is to be applied."""
        names = ("payload_specs", "configs", "secrets", "endpoints", "routes", "notification_rules")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True, slots=True)
class Stored:
    """The catalogue as it is stored, with the tags of its states."""

    payload_specs: Mapping[str, Named]
    configs: Mapping[str, Named]
    secrets: list[str]
    endpoints: Mapping[str, Endpoint]
    routing: Routing
    notification_rules: Mapping[str, Named]

    @classmethod
    def read(cls, database: Database) -> "Stored":
        """Read it; no secret is decrypted, or leaves the database."""
        return cls(
            _named(lambda page: PAYLOAD_SPECS.page(database, page)),
            _named(lambda page: CONFIGS.page(database, page)),
            sorted(_named(lambda page: SECRETS.page(database, page))),
            _named(lambda page: versions.page(database, page)),
            routing.load(database),
            _named(lambda page: RULES.page(database, page)),
        )

    def document(self) -> Document:
        """Write it as a document. Routes of TE_ROUTES are no part of it."""
        routes = [{"pattern": route.pattern, "queue": route.queue} for route in self.routing.routes]
        return Document(
            {name: each.value for name, each in self.payload_specs.items()},
            {name: each.value for name, each in self.configs.items()},
            self.secrets,
            {name: written(each) for name, each in self.endpoints.items()},
            routes if self.routing.source is RouteSource.API else None,
            {name: each.value for name, each in self.notification_rules.items()} or None,
        )


def written(endpoint: Endpoint) -> dict[str, Any]:
    """Write an endpoint, without what has its default."""
    definition = endpoint.definition
    own = {
        "type": definition.type.value,
        "spec": definition.spec,
        "payload_spec": definition.payload_spec,
        "config": definition.config,
        "retry_policy": definition.retry_policy,
        "keep_response": definition.keep_response.value,
        "callbacks": definition.callbacks,
    }
    flow = {name: getattr(endpoint, name) for name in ("queue", "priority", "limits", "breaker", "result_retention")}
    return without_defaults(own | flow)


def without_defaults(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out of an endpoint what has its default."""
    return {key: value for key, value in endpoint.items() if key not in _DEFAULTS or value != _DEFAULTS[key]}


def dumped(value: object) -> str:
    """Write a value as YAML."""
    plain = json.loads(json.dumps(value))
    return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120, default_flow_style=False))


def parsed(text: str, where: str) -> Document:
    """Read a document; raises CommandError with what is wrong, and where."""
    try:
        value = parse_json(json.dumps(yaml.load(text, Loader=_Loader)))  # noqa: S506 - a SafeLoader
        if value is None:
            # Half a file may be empty: with --delete it would mean that all goes.
            raise CommandError(f"{where} is empty; write {{}} for a catalogue in which nothing is")
        loaded = _DocumentSchema().load(value)
    except yaml.YAMLError as error:
        raise CommandError(f"{where} is not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise CommandError(f"{where} is nested too deep") from None
    except (TypeError, ValueError, InvalidRequestError) as error:
        fault = str(error).replace("The body", "it", 1)
        raise CommandError(f"{where} holds what JSON has not: {fault}") from None
    except ValidationError as error:
        faults = [f"{pointer(_plain(path)) or '/'}: {fault}" for path, fault in marshmallow_faults(error.messages)]
        raise CommandError(f"{where} is not a catalogue: {'; '.join(faults[:_MOST_FAULTS])}") from None
    for name, schema in loaded["payload_specs"].items():
        try:
            check_schema(schema)
        except TaskExecutorError as error:
            raise CommandError(f"{where}: /payload_specs/{name}: {error.message}") from None
    given = value.get("endpoints", {})
    endpoints = {name: without_defaults(each) for name, each in given.items()}
    for each in endpoints.values():
        # The name of an entry need not be repeated in it.
        each.pop("name", None)
    named = loaded.get("notification_rules")
    rules = None if named is None else {name: without_defaults_of_rule(value_of(each)) for name, each in named.items()}
    kinds = (loaded["payload_specs"], loaded["configs"], loaded["secrets"], endpoints)
    return Document(*kinds, value.get("routes"), rules)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without dates, which JSON has not, and without a key that comes twice."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML declares it of the class
        first: [pair for pair in pairs if pair[0] != _TIMESTAMP]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Read a mapping."""
        seen = set[str]()
        for node_of_key, _ in node.value:
            key = self.construct_object(node_of_key, deep=True)
            # In JSON the keys 1 and "1" are one.
            key = key if isinstance(key, str) else json.dumps(key)
            if key in seen:
                fault = f"the key {key!r} comes twice"
                raise yaml.constructor.ConstructorError(None, None, fault, node_of_key.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _named(read_page: Callable[[PageRequest], Page[T]]) -> dict[str, T]:
    found, is_more = gather(read_page, MOST)
    if is_more:
        raise CommandError(f"the catalogue has more than {MOST:,} of a kind, which is more than a document holds")
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def _plain(path: tuple[str, ...]) -> list[str]:
    # marshmallow puts "key" or "value" between the name of an entry and what is wrong with it.
    return [part for number, part in enumerate(path) if number != 2 or part not in {"key", "value"}]
