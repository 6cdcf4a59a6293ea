"""Editor of an endpoint: its definition, the changes of a form, and the next version."""

from typing import Any

from flask import Response

from app.catalog.endpoints import version_history, versions
from app.catalog.endpoints.endpoint_rows import Endpoint
from app.catalog.endpoints.inline_names import is_inline
from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import ETAG, change, form
from app.console.http.page_rendering import to
from app.console.pages.definition_form import loaded, schemas_of, shown_definition, switched, typed_form
from app.console.pages.endpoint_page import reach_of_endpoint
from app.console.views.difference import differences
from app.console.views.typed_definition import TypedDefinition, texts_of, values_of
from app.kernel.errors import ConflictError, PreconditionFailedError, TaskExecutorError
from app.web.catalog import similar_endpoints
from app.web.catalog.endpoints_api import ChangedEndpointSchema, check_in, definition_of, replace_in
from app.web.services import services, wake

BASE = "base"  # field: the version that the form began with
SEEN = "seen"  # field: a digest of the definition whose changes were shown

page = ConsolePage(
    "endpoint_editor", "/endpoints/<name>/edit", "Edit an endpoint", reads="PUT /endpoints/<name>", under="endpoints"
)


@page.show
def show(name: str) -> Values:
    """Return the form with the present definition."""
    endpoint = _editable(name)
    schemas = schemas_of(endpoint.type)
    return _values(endpoint, TypedDefinition.of(texts_of(endpoint, schemas), schemas))


@action("PUT /endpoints/<name>")
def save(name: str) -> Done | Response:
    """Show the changes, or make the next version; a form of an earlier state is shown with the changes since."""
    endpoint = _editable(name)
    typed = typed_form(endpoint.type)
    if (other := switched(typed)) is not None:
        return _again(endpoint, other, None, 422 if other.faults else 200)
    body = loaded(ChangedEndpointSchema(), endpoint.type, typed)
    wants_to_save = form().text("do") == "save" and form().text(SEEN) == typed.digest
    try:
        if body is None:
            return _again(endpoint, typed, None, 422)
        if not wants_to_save:
            check_in(name, body)
            return _again(endpoint, typed, body, 412 if form().text(ETAG) != endpoint.tag else 200)
        changed = replace_in(name, body, change())
    except PreconditionFailedError:
        return _again(_editable(name), typed, body, 412)
    except TaskExecutorError as error:
        if error.status >= 500 or not error.details:
            raise
        typed.add_faults(similar_endpoints.explained(error).details)
        return _again(endpoint, typed, None, 422)
    wake(changed.queue_in_effect)
    return Done(f"Version {changed.version} is in effect for jobs from now on.", to("endpoint", name=name))


def _editable(name: str) -> Endpoint:
    """Return an endpoint with a definition that can change; raises EndpointNotFoundError or ConflictError."""
    endpoint = versions.get(services().database, name)
    if is_inline(name):
        raise ConflictError("This endpoint stands for the `url` of jobs: its definition cannot change.")
    return endpoint


def _again(endpoint: Endpoint, typed: TypedDefinition, body: dict[str, Any] | None, status: int) -> Response:
    """Show the form with its faults or its changes, and with all changes since it was opened."""
    shown = _values(endpoint, typed)
    if form().text(ETAG) != endpoint.tag:
        shown["meanwhile"] = _meanwhile(endpoint)
    if body is not None:
        shown["changes"] = differences(values_of(endpoint), values_of(definition_of(body)))
    return page.answer({"name": endpoint.name}, shown, status)


def _meanwhile(endpoint: Endpoint) -> Values:
    """Return the changes since the form was opened, and the present version with its author if it is another."""
    base = version_history.get_version(services().database, endpoint.name, form().text(BASE))
    if base.version == endpoint.version:
        return {"version": None, "changes": []}
    now = version_history.get_version(services().database, endpoint.name, str(endpoint.version))
    return {"version": now, "changes": differences(values_of(base), values_of(endpoint))}


def _values(endpoint: Endpoint, typed: TypedDefinition) -> Values:
    return shown_definition(typed) | {
        "title": f"Edit {endpoint.name}",
        "endpoint": endpoint,
        "etag": endpoint.tag,
        "seen": typed.digest,
        "changes": None,
        "meanwhile": None,
        "reach": reach_of_endpoint(endpoint.name),
    }
