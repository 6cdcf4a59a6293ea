"""Definition of an endpoint in a form: the texts of its fields, its body, and its faults by field."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from app.catalog.endpoints.endpoint_rows import EndpointDefinition
from app.console.views.json_text import indented, parsed_json
from app.console.views.text_by_name import TextByName
from app.kernel.errors import Detail

NAMES = ("payload_spec", "config", "keep_response")
OF_JSON = ("spec", "retry_policy", "callbacks")
NEEDED = ("spec",)


@dataclass(slots=True)
class TypedDefinition:
    """Texts of a form; the body lacks the fields that are not JSON."""

    texts: Mapping[str, str]
    body: dict[str, Any] = field(default_factory=dict)
    faults: TextByName = field(default_factory=TextByName)

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "TypedDefinition":
        """Parse the texts of a form; an empty field is left out, so that it has its default."""
        typed = cls(texts)
        typed.body = {name: texts[name] for name in NAMES if texts[name]}
        for name in OF_JSON:
            try:
                if texts[name] or name in NEEDED:
                    typed.body[name] = parsed_json(texts[name])
            except ValueError as error:
                typed.faults[name] = str(error)
        return typed

    @property
    def digest(self) -> str:
        """Return a digest of the texts: a form with the digest has shown their changes to its reader."""
        return hashlib.sha256(json.dumps([*sorted(self.texts.items())]).encode()).hexdigest()

    def add_faults(self, details: Iterable[Detail]) -> None:
        """Add faults to the fields of their pointers, with the place within the field; else to the empty name."""
        for each in details:
            name, _, place = each["pointer"].removeprefix("/").partition("/")
            known = name if name in self.texts else ""
            words = f"{place}: {each['message']}" if known and place else each["message"]
            self.faults[known] = f"{self.faults[known]} {words}" if known in self.faults else words


def texts_of(endpoint: EndpointDefinition) -> dict[str, str]:
    """Return the texts that show a definition in the form."""
    values = {name: getattr(endpoint, name) for name in (*NAMES, *OF_JSON)}
    return {
        name: "" if value is None else indented(value) if name in OF_JSON else str(value)
        for name, value in values.items()
    }


def values_of(endpoint: EndpointDefinition) -> dict[str, Any]:
    """Return the fields of a definition by name, for a comparison of two definitions; as stored, without null."""
    callbacks = {event: target for event, target in (endpoint.callbacks or {}).items() if target is not None}
    return {each.name: getattr(endpoint, each.name) for each in fields(EndpointDefinition)} | {
        "callbacks": callbacks or None
    }
