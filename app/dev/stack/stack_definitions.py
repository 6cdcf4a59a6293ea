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


def endpoint(type_: EndpointType, name: str, spec: Fields, why: str = "", **fields: Any) -> Definition:
    """Define an endpoint with additional `fields`."""
    return Definition("/endpoints", {"name": name, "type": type_.value, "spec": spec} | fields, why)
