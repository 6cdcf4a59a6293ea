"""Definition of an endpoint in a form: the texts of its fields, its body, and its faults by field."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from app.catalog.endpoints.endpoint_rows import EndpointDefinition
from app.console.views import stored_input
from app.console.views.input_field import COUNT, FormField, every_field
from app.console.views.json_text import indented
from app.console.views.schema_form import Schema, form_of
from app.console.views.text_by_name import TextByName
from app.console.views.typed_input import typed_input
from app.kernel.errors import Detail

PLAIN = ("name", "payload_spec", "config", "keep_response")
PARTS = ("spec", "retry_policy", "callbacks")
NEEDED = frozenset({"spec"})
AS = "as:"
"""Prefix of the field that says how a part is typed: `json`, or empty for fields."""


@dataclass(slots=True)
class TypedDefinition:
    """Texts of a form, the fields of its parts, and the body that they stand for."""

    texts: TextByName
    schemas: Mapping[str, Schema]
    forms: dict[str, FormField] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    faults: TextByName = field(default_factory=TextByName)

    @classmethod
    def of(cls, texts: Mapping[str, str], schemas: Mapping[str, Schema]) -> "TypedDefinition":
        """Read the texts of a form; an empty field is left out, so that it has its default."""
        typed = cls(TextByName({name: text for name, text in texts.items() if _is_of_definition(name)}), schemas)
        typed.body = {name: texts[name].strip() for name in PLAIN if texts.get(name, "").strip()}
        for name in PARTS:
            typed.forms[name] = form_of(None if typed.is_json(name) else schemas[name], typed.texts, name)
            value, faults = typed_input(typed.forms[name])
            typed.faults |= {f"{name}{pointer}": message for pointer, message in faults.items()}
            if value != {} or name in NEEDED:
                typed.body[name] = value
        return typed

    @property
    def digest(self) -> str:
        """Return a digest of the body: a form with the digest has shown its changes to its reader."""
        return hashlib.sha256(json.dumps(self.body, sort_keys=True, default=str).encode()).hexdigest()

    def is_json(self, part: str) -> bool:
        return self.texts[f"{AS}{part}"] == "json"

    def switched(self, part: str, *, to_json: bool) -> "TypedDefinition":
        """Return the form with a part as JSON, or as fields; with a fault if it cannot be shown so."""
        others = {name: text for name, text in self.texts.items() if not _is_of(name, part)}
        if any(_is_of(name, part) for name in self.faults):
            return self
        value = self.body.get(part, {})
        if to_json:
            return TypedDefinition.of(others | _json_texts(part, value), self.schemas)
        texts = stored_input.texts_of(self.schemas[part], value, part)
        if texts is None:
            self.faults[part] = "The form has no field for some of this, so it stays JSON."
            return self
        return TypedDefinition.of(others | texts, self.schemas)

    def add_faults(self, details: Iterable[Detail]) -> None:
        """Add each fault to the field of its pointer, else to the field around it with the place; else to no field."""
        known = {each.name for form in self.forms.values() for each in every_field(form)} | {*PLAIN}
        for each in details:
            name, place = each["pointer"].removeprefix("/"), ""
            while name and name not in known:
                name, _, last = name.rpartition("/")
                place = f"{last}/{place}" if place else last
            words = f"{place}: {each['message']}" if name and place else each["message"]
            self.faults[name] = f"{self.faults[name]} {words}" if name in self.faults else words


def texts_of(endpoint: EndpointDefinition, schemas: Mapping[str, Schema]) -> dict[str, str]:
    """Return the texts that show a definition in the form; a part that the form cannot show is JSON."""
    values = values_of(endpoint)
    texts = {name: str(values[name]) for name in PLAIN if values.get(name) is not None}
    for name in PARTS:
        if values[name] is not None:
            shown = stored_input.texts_of(schemas[name], values[name], name)
            texts |= _json_texts(name, values[name]) if shown is None else shown
    return texts


def values_of(endpoint: EndpointDefinition) -> dict[str, Any]:
    """Return the fields of a definition by name, for a comparison of two definitions; as stored, without null."""
    callbacks = {event: target for event, target in (endpoint.callbacks or {}).items() if target is not None}
    return {each.name: getattr(endpoint, each.name) for each in fields(EndpointDefinition)} | {
        "callbacks": callbacks or None
    }


def _json_texts(part: str, value: Any) -> dict[str, str]:
    return {f"{AS}{part}": "json", part: indented(value)}


def _is_of(name: str, part: str) -> bool:
    """Return whether a field belongs to a part."""
    own = name.removeprefix(AS).removeprefix(COUNT)
    return own == part or own.startswith(f"{part}/")


def _is_of_definition(name: str) -> bool:
    return name in PLAIN or any(_is_of(name, part) for part in PARTS)
