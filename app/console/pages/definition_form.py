"""Form of the definition of an endpoint, with the fields of its transport."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from flask import request
from marshmallow import Schema as Loader
from marshmallow import ValidationError

from app.catalog.named_table import CONFIGS, PAYLOAD_SPECS
from app.catalog.retry_policy import RETRY_POLICY
from app.catalog.specs import TRANSPORTS
from app.console.http.console_page import Values
from app.console.http.forms import form
from app.console.pages.job_form import texts_in
from app.console.views.definition_schema import readable
from app.console.views.schema_form import Schema
from app.console.views.typed_definition import TypedDefinition
from app.kernel.db.paging import PageRequest
from app.web.http.body import details_of
from app.web.http.request_fields import NewCallbacksSchema
from app.web.openapi.described_schema import json_schema_of
from app.web.services import services
from schema.states import EndpointType, KeepResponse

MAX_NAMES = 100


@cache
def schemas_of(type_: EndpointType) -> Mapping[str, Schema]:
    """Return the schemas of the parts of a definition, from those that check the requests of the API."""
    parts = {"spec": TRANSPORTS[type_].spec, "retry_policy": RETRY_POLICY, "callbacks": NewCallbacksSchema()}
    return {name: readable(json_schema_of(schema)) for name, schema in parts.items()}


def typed_form(type_: EndpointType) -> TypedDefinition:
    """Read the form of the current action."""
    return TypedDefinition.of(texts_in(request.form), schemas_of(type_))


def switched(typed: TypedDefinition) -> TypedDefinition | None:
    """Return the form after a button that shows a part as JSON or as fields; None if another button was pressed."""
    way, _, part = form().text("do").partition(":")
    if way not in {"json", "fields"} or part not in typed.forms:
        return None
    return typed.switched(part, to_json=way == "json")


def loaded(schema: Loader, type_: EndpointType, typed: TypedDefinition) -> dict[str, Any] | None:
    """Load the definition as the API does; None if it has faults."""
    if typed.faults:
        return None
    try:
        body: dict[str, Any] = schema.load(typed.body | {"type": type_.value})
    except ValidationError as error:
        typed.add_faults(details_of(error.messages, in_body=True))
        return None
    return body


def shown_definition(typed: TypedDefinition) -> Values:
    """Return the variables of the template that the forms of definitions share."""
    database, request_ = services().database, PageRequest(MAX_NAMES)
    return {
        "texts": typed.texts,
        "forms": typed.forms,
        "as_json": {name: typed.is_json(name) for name in typed.forms},
        "faults": typed.faults,
        "keeps": [each.value for each in KeepResponse],
        "payload_specs": [each.name for each in PAYLOAD_SPECS.page(database, request_).items],
        "configs": [each.name for each in CONFIGS.page(database, request_).items],
    }
