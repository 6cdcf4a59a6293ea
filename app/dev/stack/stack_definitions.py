"""Definitions of endpoints and their parts, for registration through the API."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from app.dev.stack.stack_client import Api
from schema.states import EndpointType

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Definition:
    """POST that registers a definition; `why` describes its purpose."""

    path: str
    body: Fields
    why: str = ""

    @property
    def name(self) -> str:
        return str(self.body["name"])


def register(api: Api, definitions: Iterable[Definition]) -> None:
    """Register definitions in the given order."""
    for definition in definitions:
        api.post(definition.path, definition.body)


def http(name: str, url: str, body: Fields, why: str = "", *, spec: Fields | None = None, **fields: Any) -> Definition:
    """Define an HTTP endpoint for POST; `spec` and `fields` extend its spec and the endpoint."""
    given = {"url": url, "method": "POST", "body_template": body}
    return _endpoint(name, EndpointType.HTTP, given | (spec or {}), fields, why)


def kafka(name: str, spec: Fields, why: str = "", **fields: Any) -> Definition:
    """Define a Kafka endpoint with acks of all replicas."""
    return _endpoint(name, EndpointType.KAFKA, {"acks": "all"} | spec, fields, why)


def redis_stream(name: str, spec: Fields, why: str = "", **fields: Any) -> Definition:
    return _endpoint(name, EndpointType.REDIS_STREAM, spec, fields, why)


def notification(name: str, spec: Fields, why: str = "", **fields: Any) -> Definition:
    return _endpoint(name, EndpointType.NOTIFICATION, spec, fields, why)


def _endpoint(name: str, type_: EndpointType, spec: Fields, fields: Fields, why: str) -> Definition:
    return Definition("/endpoints", {"name": name, "type": type_.value, "spec": spec} | fields, why)
