"""Rendering of templates: the environment of Jinja, and the functions that all templates may call."""

import inspect
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode as url_query

from flask import Response, request, url_for
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from app.console.access import csrf, permission
from app.console.http import actions, static_files, viewer_zone
from app.console.http.request_values import once_a_request
from app.console.http.response_headers import nonce
from app.console.views import (
    delivery_totals,
    filter_words,
    linked_text,
    places,
    reach,
    status_words,
    typed_count,
    words,
)
from app.feature import Feature

_LOADER = FileSystemLoader(Path(__file__).parents[1] / "templates")
_PERIODS = ("created_after", "created_before", "failed_after", "failed_before")


@cache
def environment() -> Environment:
    """Return the environment; a misspelt variable of a template is an error."""
    found = Environment(
        loader=_LOADER,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals.update(
        action_address=actions.address,
        csrf=csrf.token,
        filter_words=filter_words.filter_words,
        form_fields=form_fields,
        full_instant=words.full_instant,
        here=here,
        here_without=here_without,
        hx=hx,
        instant_words=viewer_zone.instant_words,
        is_typed=typed_count.is_typed,
        linked=linked_text.linked,
        may=permission.may,
        nonce=nonce,
        now=now,
        place_of=places.place_of,
        static=static_files.address,
        status_of=status_words.status_of,
        to=to,
        use_heading=reach.heading,
        zone_name=viewer_zone.zone_name,
    )
    found.filters.update(
        ago=ago,
        duration=words.duration,
        number=words.number,
        percent=words.percent,
        plural=words.plural,
        up_to=delivery_totals.up_to,
    )
    return found


def add_templates(features: Iterable[Feature]) -> None:
    """Find the templates of features, each in the folder `templates` of its package."""
    folders = [str(Path(inspect.getfile(type(feature))).with_name("templates")) for feature in features]
    _LOADER.searchpath += [folder for folder in folders if folder not in _LOADER.searchpath]


def render(template: str, **values: Any) -> str:
    """Render a template of the folder."""
    return environment().get_template(template).render(**values)


def html(text: str, status: int = 200) -> Response:
    return Response(text, status, content_type="text/html; charset=utf-8")


def ago(at: datetime) -> str:
    """Return the distance of an instant from now in words."""
    return words.ago(at, now())


def to(page: str, **values: Any) -> str:
    """Return the address of a page by its name, the parts of its path and its query."""
    query = {name: values.pop(name) for name in ("endpoint",) if name in values}  # a parameter of url_for, too
    address = url_for(f"console.{page}", **values)
    return f"{address}{'&' if '?' in address else '?'}{url_query(query)}" if query else address


def hx() -> Markup:
    """Return the attribute without which an element with htmx attributes does nothing."""
    return Markup('hx-nonce="{}"').format(nonce())


def once() -> str:
    """Return the idempotency key of the forms of this answer: a form that is sent twice has one effect."""
    return once_a_request("once", secrets.token_urlsafe, 18)


def form_fields() -> Markup:
    """Return the hidden fields that all forms of this answer have; a list has many forms."""
    return once_a_request("form_fields", _form_fields)


def _form_fields() -> Markup:
    field = Markup('<input type="hidden" name="{}" value="{}">')
    given = {csrf.FIELD: csrf.token(), actions.ONCE: once(), actions.BACK: here()}
    return Markup("").join(field.format(name, value) for name, value in given.items())


def now() -> datetime:
    """Return the time of the current request."""
    return once_a_request("now", datetime.now, UTC)


def here(**changed: str) -> str:
    """Return the path and query of the page that is shown, also while one of its regions is refreshed.

    `changed` replaces values of the query; an empty one leaves the field out.
    """
    fields = {key: value for key, value in request.args.to_dict(flat=False).items() if key != "region"}
    fields |= {key: [value] for key, value in changed.items()}
    query = url_query([(key, value) for key, values in fields.items() for value in values if value])
    return request.path + (f"?{query}" if query else "")


def here_without(name: str) -> str:
    """Return the newest rows of the list that is shown, without a field of its filter.

    A period that `since` hides goes with it: it would be in effect again.
    """
    left_out = (name, "after", "until", *(_PERIODS if name == "since" else ()))
    return here(**dict.fromkeys(left_out, ""))
