"""Catalogue: payload specs, configs, secrets by name only, and the pages of one of them."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from flask import Response
from marshmallow import ValidationError

from app.catalog import uses
from app.catalog.named_table import CONFIGS, PAYLOAD_SPECS, SECRETS, NamedTable
from app.catalog.uses import Use
from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import ETAG, change, form, json_of, query, refuse
from app.console.http.list_pages import shown_page
from app.console.http.page_rendering import to
from app.console.http.request_values import once_a_request
from app.console.views.json_text import shown_json
from app.console.views.reach import reach
from app.kernel import audit
from app.kernel.audit import AuditFilter
from app.kernel.db.paging import PageRequest
from app.kernel.errors import NotFoundError, TaskExecutorError
from app.kernel.function_types import AnyFunction
from app.web.catalog.named_api import MAX_SECRET, MIN_SECRET
from app.web.http.request_fields import Name, SecretName
from app.web.services import secret_box, services

MAX_AUDITED = 20
MAX_VALUE = 1_000_000  # characters in a form


class CatalogueKind(NamedTuple):
    """A kind of the catalogue: its table, its words, and the work that a change applies to."""

    path: str
    table: NamedTable
    many: str
    value: str
    applies_to: str

    @property
    def one(self) -> str:
        return self.table.noun


KINDS = {
    kind.path: kind
    for kind in (
        CatalogueKind(
            "payload-specs", PAYLOAD_SPECS, "Payload specs", "JSON Schema of the input", "jobs created from now on"
        ),
        CatalogueKind("configs", CONFIGS, "Configs", "Values, a JSON object", "executions that have not begun"),
        CatalogueKind(
            "secrets", SECRETS, "Secrets", "Value, never shown again", "attempts from now on, also of waiting work"
        ),
    )
}

page = ConsolePage(
    "catalogue", "/catalogue", "Catalogue", reads="GET /configs", nav="Catalogue", shortcut="c", has_request=False
)
one_page = ConsolePage(
    "catalogue_one", "/catalogue/<kind>/<name>", "", reads="GET /configs", under="catalogue", has_request=False
)
new_page = ConsolePage("catalogue_new", "/catalogue/new/<kind>", "", reads="POST /configs", under="catalogue")


@page.region("list", live="catalog")
def names() -> Values:
    """Read the names of a kind, newest first."""
    kind = KINDS[query().choice("kind", KINDS, "configs")]
    found = shown_page(partial(kind.table.page, services().database), {"kind": kind.path})
    return {"kind": kind, "kinds": KINDS.values(), "found": found}


@one_page.show
def show(kind: str, name: str) -> Values:
    """Read a value and the reach of a change."""
    known = kind_of(kind)
    row = known.table.get(services().database, name)
    text = "" if known.table.is_hidden else shown_json(row.value)
    return shown_form(known, name, text) | {"etag": row.tag, "row": row}


@one_page.region("uses")
def used(kind: str, name: str) -> Values:
    found = _uses(kind_of(kind), name)
    return {"uses": [each for each in found if each.count or not each.is_complete], "kind": kind_of(kind)}


@one_page.region("audit", reads="GET /audit", live="audit")
def changes(kind: str, name: str) -> Values:
    wanted = AuditFilter(resource_type=kind_of(kind).table.resource_type, resource=name)
    return {"entries": audit.page(services().database, wanted, PageRequest(MAX_AUDITED)).items}


@new_page.show
def new(kind: str) -> Values:
    return shown_form(kind_of(kind), "", "{}" if kind != "secrets" else "", is_new=True)


def kind_of(path: str) -> CatalogueKind:
    """Return a kind; raises NotFoundError for another path."""
    if path not in KINDS:
        raise NotFoundError(f"The catalogue has no {path!r}: it has {', '.join(KINDS)}.")
    return KINDS[path]


def shown_form(
    kind: CatalogueKind, name: str, text: str, fault: str = "", name_fault: str = "", *, is_new: bool = False
) -> Values:
    """Return the variables of a form, with the reach of a change of a value that exists."""
    found = () if is_new else _uses(kind, name)
    return {
        "title": f"New {kind.one}" if is_new else name,
        "kind": kind,
        "name": name,
        "text": text,
        "fault": fault,
        "name_fault": name_fault,
        "reach": reach(found),
    }


def _uses(kind: CatalogueKind, name: str) -> Sequence[Use]:
    return once_a_request("uses", uses.of_value, services().database, kind.table, name).uses


def _replace(kind: CatalogueKind, name: str) -> Done | Response:
    text = form().text("value", longest=MAX_VALUE)
    try:
        kind.table.replace(services().database, name, _stored(kind, text), change())
    except TaskExecutorError as error:
        if error.status not in {400, 422}:
            raise
        row = kind.table.get(services().database, name)
        values = shown_form(kind, name, _kept(kind, text), _words(error)) | {"etag": form().text(ETAG), "row": row}
        return one_page.answer({"kind": kind.path, "name": name}, values, 422)
    return Done(f"Saved: the {kind.one} {name} applies to {kind.applies_to}.")


def _create(kind: CatalogueKind) -> Done | Response:
    name, text = form().text("name"), form().text("value", longest=MAX_VALUE)
    try:
        kind.table.create(services().database, _checked_name(kind, name), _stored(kind, text), change())
    except TaskExecutorError as error:
        if error.status not in {400, 409, 422}:
            raise
        is_of_name = any(each["pointer"] == "name" for each in error.details) or error.status == 409
        faults = ("", _words(error)) if is_of_name else (_words(error), "")
        return new_page.answer(
            {"kind": kind.path}, shown_form(kind, name, _kept(kind, text), *faults, is_new=True), 422
        )
    return Done(f"Created the {kind.one} {name}.", to("catalogue_one", kind=kind.path, name=name))


def _delete(kind: CatalogueKind, name: str) -> Done:
    kind.table.delete(services().database, name, change())
    return Done(f"Deleted the {kind.one} {name}.", to("catalogue", kind=kind.path))


def _checked_name(kind: CatalogueKind, name: str) -> str:
    try:
        return str((SecretName() if kind.table is SECRETS else Name()).deserialize(name))
    except ValidationError as error:
        refuse("name", str(error.messages[0]))


def _stored(kind: CatalogueKind, text: str) -> Any:
    """Return the value to store; raises InvalidRequestError that names the field."""
    if kind.table is SECRETS:
        if not MIN_SECRET <= len(text) <= MAX_SECRET:
            refuse("value", f"Must have {MIN_SECRET} to {MAX_SECRET:,} characters.")
        return secret_box().encrypt(text)
    value = json_of("value", text)
    if kind.table is CONFIGS and not isinstance(value, dict):
        refuse("value", "Must be a JSON object.")
    return value


def _kept(kind: CatalogueKind, text: str) -> str:
    """Return the text to show again; a secret is never sent back."""
    return "" if kind.table is SECRETS else text


def _words(error: TaskExecutorError) -> str:
    return " ".join(each["message"] for each in error.details) or error.message


def _register(operation: str, view: AnyFunction, kind: CatalogueKind) -> None:
    action(f"{operation.replace('KIND', kind.path)}")(partial(view, kind))


for _kind in KINDS.values():
    _register("POST /KIND", _create, _kind)
    _register("PUT /KIND/<name>", _replace, _kind)
    _register("DELETE /KIND/<name>", _delete, _kind)
