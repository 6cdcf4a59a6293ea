"""Form of a job: typed texts become the body of a request, and faults go to their fields."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from marshmallow import Schema, ValidationError
from werkzeug.datastructures import MultiDict

from app.catalog.endpoints import versions
from app.catalog.named_table import PAYLOAD_SPECS
from app.console.http.console_page import Values
from app.console.http.forms import Fields, refuse
from app.console.pages.schedule_preview import preview_of
from app.console.views.input_field import ROOT, FormField
from app.console.views.missed_ticks import picture_of_catch_up, picture_of_overlap
from app.console.views.schedule_words import CATCH_UP, OVERLAP
from app.console.views.schema_form import form_of
from app.console.views.stored_input import texts_of
from app.console.views.text_by_name import TextByName
from app.console.views.typed_input import typed_input
from app.kernel.errors import EndpointNotFoundError, InvalidRequestError, TaskExecutorError
from app.kernel.formats import marshmallow_faults
from app.schedule.zones import names
from app.web.catalog import similar_endpoints
from app.web.http.body import parse_json
from app.web.services import services
from schema.states import CatchUp, Overlap

MAX_TYPED = 1_200_000
OWN_FIELDS = frozenset({"csrf", "once", "back", "etag"})
PLAIN = (
    *("name", "queue", "cron", "timezone", "every", "starts_at", "ends_at", "catch_up", "overlap", "delay", "run_at"),
    *("idempotency_key",),
)
WHOLE = ("priority", "max_catch_up")


@dataclass
class TypedJob:
    """Texts of the form of a job, and the request that they stand for.

    Attributes:
        texts: Typed texts by field.
        input_form: Fields of the input, with the typed texts.
        body: Body of the request, as far as it can be read.
        faults: Faults by the name of their field.
    """

    texts: dict[str, str]
    input_form: FormField
    body: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    def add_faults(self, error: TaskExecutorError) -> None:
        """Show the faults of a refused request at their fields."""
        error = similar_endpoints.explained(error)
        for fault in error.details:
            self._add(fault["pointer"].removeprefix("/"), fault["message"])
        if not error.details:
            self.faults.setdefault("", error.message)

    def add_faults_of_schema(self, error: ValidationError) -> None:
        for path, message in marshmallow_faults(error.messages):
            self._add("/".join(map(str, path)), message)

    def _add(self, place: str, message: str) -> None:
        known = {*PLAIN, *WHOLE, "labels", "callbacks", "endpoint"}
        top = place.partition("/")[0]
        # A fault of a missing property belongs to the field of that property.
        name = place if top == ROOT else top
        self.faults.setdefault(name if top == ROOT or top in known else "", message)


def texts_in(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a form or an address that a person typed; raises InvalidRequestError for a NUL character."""
    for name, text in fields.items():
        if "\0" in text:
            refuse(name, "Must not contain a NUL character.")
    typed = {name: text for name, text in fields.items() if name not in OWN_FIELDS and len(text) <= MAX_TYPED}
    return {name: text.replace("\r\n", "\n") for name, text in typed.items()}


def typed_job(texts: dict[str, str], schema: Mapping[str, Any] | None, *, trigger: str) -> TypedJob:
    """Read typed texts; faults of values that no request could hold are noted at their fields."""
    as_json = texts.get("as") == "json"
    found = TypedJob(texts, form_of(None if as_json else schema, texts))
    read, faults = typed_input(found.input_form)
    found.faults |= {f"{ROOT}{pointer}": message for pointer, message in faults.items()}
    body: dict[str, Any] = {name: text.strip() for name in PLAIN if (text := texts.get(name, "")).strip()}
    body = {name: value for name, value in body.items() if name in fields_of(trigger)}
    for name in WHOLE:
        text = texts.get(name, "").strip()
        if text and name in fields_of(trigger):
            body[name] = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
    if texts.get("labels", "").strip():
        body["labels"] = _pairs("labels", texts, found.faults)
    if texts.get("callbacks", "").strip():
        endpoints = _pairs("callbacks", texts, found.faults)
        body["callbacks"] = {event: endpoint or None for event, endpoint in endpoints.items()}
    if texts.get("fixed_delay") and trigger == "INTERVAL":
        body["fixed_delay"] = True
    for name in ("starts_at", "ends_at", "run_at"):
        if name in body:
            body[name] = as_utc(body[name])
    found.body = body | {"input": read}
    return found


def load(schema: Schema, typed: TypedJob, body: dict[str, Any]) -> dict[str, Any] | None:
    """Load a body as the API does; None if it has faults, which are noted at their fields."""
    try:
        checked: Any = parse_json(json.dumps(body), has_places=False)
        loaded: dict[str, Any] = schema.load(checked)
    except ValidationError as error:
        typed.add_faults_of_schema(error)
    except InvalidRequestError as error:
        typed.add_faults(error)
    else:
        return None if typed.faults else loaded
    return None


def schema_of(endpoint: str) -> Mapping[str, Any] | None:
    """Return the schema of an endpoint's inputs; None without a schema. Raises EndpointNotFoundError."""
    found = versions.get(services().database, endpoint)
    if found.payload_spec is None:
        return None
    schema: Mapping[str, Any] = PAYLOAD_SPECS.get(services().database, found.payload_spec).value
    return schema


def texts_of_input(schema: Mapping[str, Any] | None, value: Any) -> dict[str, str]:
    """Return the texts that show a stored input: as a form, else as JSON."""
    shown = texts_of(schema, value)
    return shown if shown is not None else {"as": "json"} | (texts_of(None, value) or {})


def pairs_text(pairs: Mapping[str, str | None]) -> str:
    """Write labels or callbacks as they are typed; an event without a callback has no value."""
    return ", ".join(f"{name}={value or ''}" for name, value in pairs.items())


def shown_form(typed: TypedJob) -> Values:
    """Return the variables of the template that the forms of jobs share."""
    return {
        "texts": TextByName(typed.texts),
        "input": typed.input_form,
        "as_json": typed.texts.get("as") == "json",
        "faults": TextByName(typed.faults),
        "zones": sorted(names()),
        "catch_ups": [(each.value, CATCH_UP[each], picture_of_catch_up(each)) for each in CatchUp],
        "overlaps": [(each.value, OVERLAP[each], picture_of_overlap(each)) for each in Overlap],
        "runs": preview_of(Fields(MultiDict(typed.texts))),
    }


def input_faults(endpoint: str, typed: TypedJob) -> None:
    """Check the input against the schema of its endpoint, and note the faults at their fields."""
    try:
        services().creator.targets.checked(endpoint, typed.body["input"])
    except EndpointNotFoundError as error:
        typed.faults["endpoint"] = similar_endpoints.explained(error).message
    except TaskExecutorError as error:
        typed.add_faults(error)


def _pairs(name: str, texts: Mapping[str, str], faults: dict[str, str]) -> dict[str, str]:
    pairs = [each.strip().partition("=") for each in texts[name].split(",") if each.strip()]
    if not all(sign for _, sign, _ in pairs):
        faults[name] = "Must be key=value pairs, separated by commas."
    values = {key.strip(): value.strip() for key, _, value in pairs}
    if len(values) < len(pairs):
        faults[name] = "Has a key twice: its last value would replace the others."
    return values


def as_utc(text: str) -> str:
    """Complete a local date and time, as browsers send them, to an instant in UTC."""
    has_zone = text.endswith(("Z", "z")) or "+" in text or text.count("-") > 2
    seconds = text if text.count(":") > 1 or has_zone else f"{text}:00"
    return seconds if has_zone else f"{seconds}Z"


def fields_of(trigger: str) -> set[str]:
    """Return the fields that a job of a trigger may have."""
    common = {"name", "queue", "priority", "idempotency_key"}
    repeating = {"starts_at", "ends_at", "catch_up", "max_catch_up", "overlap"}
    own = {
        "IMMEDIATE": set[str](),
        "DELAYED": {"delay", "run_at"},
        "CRON": {"cron", "timezone", *repeating},
        "INTERVAL": {"every", *repeating},
    }
    return common | own[trigger]
