"""New endpoint: a form with the fields of its transport, and the request that it stands for."""

from flask import Response, request

from app.catalog.specs import TRANSPORTS
from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import change, form, query
from app.console.http.page_rendering import to
from app.console.pages.definition_form import loaded, schemas_of, shown_definition, switched, typed_form
from app.console.views.curl_text import curl_of
from app.console.views.typed_definition import TypedDefinition
from app.kernel.errors import TaskExecutorError
from app.web.catalog import similar_endpoints
from app.web.catalog.endpoints_api import NewEndpointSchema, create_in
from schema.states import EndpointType

TYPES = [each.value for each in EndpointType]

page = ConsolePage("endpoint_new", "/new-endpoint", "New endpoint", reads="POST /endpoints", under="endpoints")


@page.show
def show() -> Values:
    """Return an empty form of a transport."""
    type_ = EndpointType(query().choice("type", TYPES, EndpointType.HTTP.value))
    return _values(type_, TypedDefinition.of({}, schemas_of(type_)))


@action("POST /endpoints")
def create() -> Done | Response:
    """Create an endpoint, or show the form with its faults, with a part as JSON, or checked."""
    type_ = EndpointType(form().choice("type", TYPES, EndpointType.HTTP.value))
    typed, wanted = typed_form(type_), form().text("do")
    if (other := switched(typed)) is not None:
        return page.answer({}, _values(type_, other), 422 if other.faults else 200)
    body = loaded(NewEndpointSchema(), type_, typed)
    if body is None:
        return page.answer({}, _values(type_, typed), 422)
    try:
        created = create_in(body, change())
    except TaskExecutorError as error:
        if error.status >= 500:
            raise
        error = similar_endpoints.explained(error)
        typed.add_faults(error.details or [{"pointer": "/name", "message": error.message}])
        return page.answer({}, _values(type_, typed), 422)
    if wanted != "create":  # an action that answers with a page is undone
        return page.answer({}, _values(type_, typed, is_checked=True))
    return Done("The endpoint is created.", to("endpoint", name=created.name))


def _values(type_: EndpointType, typed: TypedDefinition, *, is_checked: bool = False) -> Values:
    body = {"type": type_.value} | typed.body
    return shown_definition(typed) | {
        "type": type_.value,
        "types": [(each.value, f"{each.value}: {TRANSPORTS[each].noun}") for each in EndpointType],
        "is_checked": is_checked,
        "curl": curl_of("POST", f"{request.host_url.rstrip('/')}/endpoints", body) if is_checked else "",
    }
