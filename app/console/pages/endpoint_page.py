"""One endpoint: its deliveries, limits, breakers, versions with their differences, and uses."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from flask import Response
from marshmallow import ValidationError

from app.catalog import uses
from app.catalog.endpoints import live_settings, version_history, versions
from app.catalog.endpoints.endpoint_rows import Endpoint
from app.catalog.endpoints.inline_names import is_inline
from app.catalog.endpoints.version_history import EndpointVersion
from app.console.http import closed_contents
from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import ETAG, change, form, query
from app.console.http.page_rendering import to
from app.console.http.request_values import once_a_request
from app.console.pages.breaker_reach import reach_of_breakers
from app.console.pages.chart_changes import watched_targets
from app.console.pages.history_page import chart_values
from app.console.pages.periods import choice_of_periods, shown_period
from app.console.views.difference import differences
from app.console.views.json_text import parsed_json, shown_json
from app.console.views.reach import reach
from app.features.limits import api as limits_api
from app.kernel.db.paging import PageRequest
from app.kernel.formats import marshmallow_faults
from app.web.catalog import endpoints_api
from app.web.catalog.endpoints_api import FlowSchema
from app.web.http.error_envelope import client_error
from app.web.services import services, wake

MAX_VERSIONS = 50
_FLOW = ("queue", "priority", "limits", "breaker")
_OWN = ("version", "name", "actor", "created_at")

page = ConsolePage("endpoint", "/endpoints/<name>", "Endpoint", reads="GET /endpoints/<name>", under="endpoints")
edit_page = ConsolePage(
    "endpoint_flow", "/endpoints/<name>/flow", "Limits and queue", reads="PATCH /endpoints/<name>", under="endpoints"
)


@page.show
def show(name: str) -> Values:
    """Read the endpoint; raises EndpointNotFoundError."""
    return {
        "title": name,
        "endpoint": _endpoint(name),
        "is_inline": is_inline(name),
        "opened": _opened(name),
        "ranges": choice_of_periods(),
        "last": shown_period(),
        "reach": reach_of_endpoint(name),
    }


@page.region("now", reads="GET /stats/history", live="rollups")
def now_(name: str) -> Values:
    return chart_values(name)


@page.region("flow", live="flow breakers")
def flow(name: str) -> Values:
    """Read the state of the limits, and the breakers that are not closed."""
    broken = [each for each in watched_targets(name) if each["holds"]]
    return {
        "endpoint": _endpoint(name),
        "limits": limits_api.state_of_limits(_endpoint(name)),
        "breakers": broken,
        "breaker_reach": reach_of_breakers(broken),
        "shown_json": shown_json,
    }


@page.region("versions", reads="GET /endpoints/<name>/versions", live="catalog")
def versions_(name: str) -> Values:
    """Read the newest versions, and compare the two versions of the address, or the newest two."""
    found = version_history.page_of_versions(services().database, name, PageRequest(MAX_VERSIONS)).items
    numbers = [str(each.version) for each in found]
    old = query().choice("old", numbers, numbers[min(1, len(numbers) - 1)])
    new = query().choice("new", numbers, numbers[0])
    by_number = {str(each.version): each for each in found}
    return {
        "versions": found,
        "numbers": numbers,
        "old": old,
        "new": new,
        "changed": differences(_definition(by_number[old]), _definition(by_number[new])),
        "definition": shown_json(_definition(by_number[new])),
        "is_closed": is_inline(name) and closed_contents.are_closed(),
    }


def _opened(name: str) -> str:
    """Return the definition of an inline endpoint, with the URL of its jobs, once a person opened it."""
    if not (is_inline(name) and closed_contents.are_closed() and closed_contents.opened("endpoint", name)):
        return ""
    return shown_json(_definition(version_history.page_of_versions(services().database, name, PageRequest(1)).items[0]))


@page.region("uses", reads="GET /endpoints/<name>/uses", live="catalog")
def uses_(name: str) -> Values:
    return {"uses": [each for each in _uses(_endpoint(name).name) if each.count]}


def reach_of_endpoint(name: str) -> list[str] | None:
    """Return the reach of a change; None if the uses cannot be read, which the rest of the page survives."""
    try:
        return reach(_uses(name))
    except Exception as error:  # noqa: BLE001 - the log has it
        client_error(error)
        return None


def _uses(name: str) -> list[uses.Use]:
    return once_a_request("uses", uses.uses_of_endpoint, services().database, name)


def _endpoint(name: str) -> Endpoint:
    return once_a_request("endpoint", versions.get, services().database, name)


@edit_page.show
def edit(name: str) -> Values:
    endpoint = versions.get(services().database, name)
    given = {each: getattr(endpoint, each) for each in _FLOW}
    return _shown(endpoint, _written(given), endpoint.tag)


def _shown(endpoint: Endpoint, given: Mapping[str, str], etag: str, faults: Sequence[str] = ()) -> Values:
    return {
        "title": f"{endpoint.name}: limits and queue",
        "endpoint": endpoint,
        "given": given,
        "faults": faults,
        "etag": etag,
        "reach": reach_of_endpoint(endpoint.name),
    }


@action("POST /endpoints/<name>/pause")
def pause(name: str) -> Done:
    wake(live_settings.set_pause(services().database, name, change(), paused=True).queue_in_effect)
    return Done(f"Paused {name}: running attempts end, and its other executions wait.")


@action("POST /endpoints/<name>/resume")
def resume(name: str) -> Done:
    wake(live_settings.set_pause(services().database, name, change(), paused=False).queue_in_effect)
    return Done(f"Resumed {name}.")


@action("PATCH /endpoints/<name>")
def change_flow(name: str) -> "Done | Response":
    """Change the live settings, or show the form again with its faults."""
    given = {each: form().text(each, longest=10_000) for each in _FLOW}
    body, faults = _parsed(given)
    if faults:
        endpoint = versions.get(services().database, name)
        return edit_page.answer({"name": name}, _shown(endpoint, given, form().text(ETAG), faults), 422)
    changed = live_settings.change_flow(services().database, name, endpoints_api.flow_of(body), change())
    wake(changed.queue_in_effect)
    return Done(
        f"Changed {name}. Limits apply within a second, the queue to new executions.", to("endpoint", name=name)
    )


def _parsed(given: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Parse the fields of the form as the API parses its body; an empty field removes a setting."""
    body: dict[str, Any] = {"queue": given["queue"] or None}
    for field in ("priority", "limits", "breaker"):
        try:
            body[field] = parsed_json(given[field]) if given[field] else None
        except ValueError as error:
            return {}, [f"{field}: Must be JSON. {error}"]
    try:
        return FlowSchema().load(body), []
    except ValidationError as error:
        return {}, [f"{'/'.join(path)}: {message}" for path, message in marshmallow_faults(error.messages)]


def _written(given: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: "" if value is None else value if name == "queue" else json.dumps(value, indent=2)
        for name, value in given.items()
    }


def _definition(version: EndpointVersion) -> dict[str, Any]:
    return {name: value for name, value in asdict(version).items() if name not in _OWN}
