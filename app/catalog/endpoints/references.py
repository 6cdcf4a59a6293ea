"""References of an endpoint: read, locked against deletion, and checked with its spec and limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, select

from app.catalog.check_spec import check_retry_policy, check_spec
from app.catalog.endpoints.limit_key import check_key
from app.catalog.named_table import CONFIGS, PAYLOAD_SPECS, SECRETS, NamedTable
from app.kernel.errors import InvalidConfigRefError, InvalidPayloadSpecRefError, UnprocessableError
from schema import tables
from schema.states import EndpointType, KeepResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDefinition:
    """Definition of an endpoint, as given by a client."""

    type: EndpointType
    payload_spec: str | None
    config: str | None
    spec: Mapping[str, Any]
    retry_policy: Mapping[str, Any] | None
    keep_response: KeepResponse = KeepResponse.ALWAYS
    callbacks: Mapping[str, str | None] | None = None


def check_references(connection: Connection, definition: EndpointDefinition, stuck_timeout_ms: int) -> list[str]:
    """Check a definition and return the names of its secrets.

    Locks the referenced rows against deletion until the transaction ends.
    """
    check_retry_policy(definition.retry_policy)
    template = check_spec(
        definition.type,
        definition.spec,
        payload_schema=_value(
            connection, PAYLOAD_SPECS, definition.payload_spec, "payload_spec", InvalidPayloadSpecRefError
        ),
        config=_value(connection, CONFIGS, definition.config, "config", InvalidConfigRefError),
        secret_names_exist=partial(_existing_secrets, connection),
        stuck_timeout_ms=stuck_timeout_ms,
    )
    return sorted(template.secret_refs)


def check_limits(connection: Connection, payload_spec: str | None, limits: Mapping[str, Any] | None) -> None:
    """Raise TemplateError unless a valid input can fill the key of the limits; locks nothing."""
    specs = tables.payload_specs.c
    query = select(specs.schema_json).where(specs.name == payload_spec)
    check_key(limits, connection.execute(query).scalar_one_or_none() if limits and payload_spec else None)


def _value(
    connection: Connection, rows: NamedTable, name: str | None, field: str, missing: type[UnprocessableError]
) -> Any:
    if name is None:
        return None
    found = rows.share(connection, [name])
    if name not in found:
        message = f"There is no {rows.noun} named {name!r}."
        raise missing(message, [{"pointer": f"/{field}", "message": message}])
    return found[name]


def _existing_secrets(connection: Connection, names: Iterable[str]) -> set[str]:
    return set(SECRETS.share(connection, list(names)))
